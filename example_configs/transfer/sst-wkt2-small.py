"""Stanford Sentiment Treebank: sentiment by the encoder of a small language model.

Published recipe. Train lm/lstm-test-small.py first, with
--encoder_params/encoder_layers=3: as published, it has only two layers.
Data: data/sst/.
Run:  python run.py --config_file=example_configs/transfer/sst-wkt2-small.py --mode=train_eval
"""
base_config = "sst-wkt2.py"

base_params = {
    "logdir": "SST-WKT2-SMALL",
    "load_model": "LSTM-FP32-2GPU-SMALL",
    "encoder_params": {"core_cell_params": {"num_units": 128}, "emb_size": 64},
    "data_layer_params": {"processed_data_folder": "sst-wkt2-small-processed-data"},
}
