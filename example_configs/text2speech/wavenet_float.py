"""WaveNet on LJSpeech in float32: 80 mel filters in, samples of 256 levels out.

The network is that of van den Oord et al. 2016 (https://arxiv.org/abs/1609.03499) with the changes of NVIDIA's
OpenSeq2Seq; see WavenetEncoder. Whole clips are read: with `segment_frames` and `context_frames`, as in toy-wavenet.py,
a step needs less memory.

Data: LJSpeech (https://keithito.com/LJ-Speech-Dataset) in LJSpeech-1.1/, with lists as for tacotron_float.py
Run:  python run.py --config_file=example_configs/text2speech/wavenet_float.py --mode=train_eval
"""
data_dir = "LJSpeech-1.1/"

base_model = "Text2SpeechWavenet"

base_params = {
    "random_seed": 0,
    "use_horovod": False,
    "num_gpus": 1,
    "max_steps": 1000000,
    "batch_size_per_gpu": 2,
    "save_summaries_steps": 50,
    "print_loss_steps": 50,
    "print_samples_steps": 500,
    "eval_steps": 500,
    "save_checkpoint_steps": 2500,
    "logdir": "wavenet-float",
    "optimizer": "Adam",
    "optimizer_params": {},
    "lr_policy": "exp_decay",
    "lr_policy_params": {
        "learning_rate": 1e-3,
        "decay_steps": 20000,
        "decay_rate": 0.1,
        "use_staircase_decay": False,
        "begin_decay_at": 45000,
        "min_lr": 1e-5,
    },
    "dtype": "float32",
    "regularizer": "l2_regularizer",
    "regularizer_params": {"scale": 1e-6},
    "initializer": "GlorotUniform",

    "encoder": "WavenetEncoder",
    "encoder_params": {
        "layer_type": "conv1d",
        "kernel_size": 3,
        "strides": 1,
        "padding": "VALID",
        "blocks": 3,
        "layers_per_block": 10,
        "filters": 64,
        "quantization_channels": 256,
    },
    "decoder": "FakeDecoder",
    "loss": "WavenetLoss",

    "data_layer": "WavenetDataLayer",
    "data_layer_params": {
        "num_audio_features": 80,
        "dataset_location": data_dir,
    },
}

train_params = {"data_layer_params": {"dataset_files": [data_dir + "train_32.csv"]}}
eval_params = {"data_layer_params": {"dataset_files": [data_dir + "val_32.csv"]}}
infer_params = {"batch_size_per_gpu": 1, "data_layer_params": {"dataset_files": [data_dir + "test.csv"]}}
interactive_infer_params = {"batch_size_per_gpu": 1}
