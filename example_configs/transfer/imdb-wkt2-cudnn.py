"""IMDB reviews: sentiment by the encoder of a language model with the layers of cuDNN.

Published recipe. Train lm/lstm-test-small-cudnn.py first, with
--encoder_params/emb_size=256 --encoder_params/encoder_layers=3: as published, the two recipes have different sizes.
Data: data/aclImdb/.
Run:  python run.py --config_file=example_configs/transfer/imdb-wkt2-cudnn.py --mode=train_eval
"""
base_config = "imdb-wkt103.py"

base_params = {
    "logdir": "IMDB-WKT2-CUDNN",
    "load_model": "LSTM-FP32-2GPU-SMALL-CUDNN",
    "lm_vocab_file": "wkt2-processed-data/vocab.txt",
    "dtype": "mixed",
    "loss_scaling": "Backoff",
    "encoder_params": {"core_cell": "<drop>", "use_cudnn_rnn": True, "cudnn_rnn_type": "CudnnLSTM"},
    "data_layer_params": {"processed_data_folder": "imdb-wkt2-cudnn-processed-data"},
}
