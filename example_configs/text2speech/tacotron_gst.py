"""Tacotron 2 with global style tokens on M-AILABS, American English, 16 kHz.

Style tokens (Wang et al. 2018, https://arxiv.org/abs/1803.09017) learn the style of a recording; inference speaks a
text in the style of another one, whose path is the first column of its list.

Data: the books of en_US of M-AILABS (https://www.caito.de/2019/01/03/the-m-ailabs-speech-dataset/) in MAILABS/, and
      lists train.csv, val.csv and test.csv there with lines name|text|normalised text, where a name is the path of a
      recording below MAILABS without .wav
Run:  python run.py --config_file=example_configs/text2speech/tacotron_gst.py --mode=train_eval
"""
base_config = "tacotron_float.py"
data_dir = "MAILABS/"

base_params = {
    "num_gpus": 2,
    "max_steps": "<drop>",
    "num_epochs": 25,
    "batch_size_per_gpu": 32,
    "lr_policy_params": {"begin_decay_at": 20000, "decay_steps": 10000},
    "logdir": "tacotron-gst",
    "encoder_params": {
        "style_embedding_enable": True,
        "style_embedding_params": {
            "conv_layers": [{"kernel_size": [3, 3], "stride": [2, 2], "num_channels": channels, "padding": "SAME"}
                            for channels in (32, 32, 64, 64, 128, 128)],
            "num_rnn_layers": 1,
            "rnn_cell_dim": 128,
            "rnn_unidirectional": True,
            "rnn_type": "GRUCell",
            "emb_size": 512,
            "attention_layer_size": 512,
            "num_tokens": 32,
            "num_heads": 8,
        },
    },
    "data_layer_params": {
        "dataset": "MAILABS",
        "num_audio_features": {"magnitude": 401},
        "style_input": "wav",
        "trim": True,
    },
}
train_params = {"data_layer_params": {"dataset_files": [data_dir + "train.csv"]}}
eval_params = {"data_layer_params": {"dataset_files": [data_dir + "val.csv"]}}
