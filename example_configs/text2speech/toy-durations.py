"""The toy voice without attention: letters are upsampled to frames by their durations, then follow convolutions.

Data: python scripts/create_toy_voice.py --output_dir=toy_voice_data
Run:  python run.py --config_file=example_configs/text2speech/toy-durations.py --mode=train_eval
Score: 120 of 120 letters are heard (docs/speech-synthesis.md)
Use:  python run.py speak toy-durations "ae iou" > out.wav
"""
base_config = "toy-voice.py"
data_dir = "toy_voice_data/"

base_model = "Text2SpeechDurationModel"

base_params = {
    "max_steps": 300,
    "print_samples_steps": 100,
    "eval_steps": 100,
    "save_checkpoint_steps": 100,
    "logdir": "toy-durations",
    "lr_policy_params": {"begin_decay_at": 100, "decay_steps": 100},
    "encoder_params": {"bn_momentum": 0.9},
    "decoder": "DurationDecoder",
    "decoder_params": {
        "decoder_type": "convolutional",
        "decoder_layers": 3,
        "decoder_cell_units": 128,
        "duration_units": 64,
        "dropout_prob": 0.0,
        "enable_postnet": False,
    },
    "loss_params": {"guided_attention_weight": 0.0, "l1_norm": True},
    "data_layer_params": {"durations": True},
}
train_params = {"data_layer_params": {"dataset_files": [data_dir + "train_aligned.csv"]}}
eval_params = {"data_layer_params": {"dataset_files": [data_dir + "dev_aligned.csv"]}}
