"""Two toy voices in one model, without attention; an embedding of the speaker is added to that of the letters.

Data: python scripts/create_toy_voice.py --voices=2 --output_dir=toy_voice_data
Run:  python run.py --config_file=example_configs/text2speech/toy-speakers.py --mode=train_eval
Use:  python run.py speak toy-speakers "[speaker low] ae iou [speaker high] ae iou" > out.wav
"""
base_config = "toy-durations.py"
data_dir = "toy_voice_data/"

base_params = {
    "logdir": "toy-speakers",
    "data_layer_params": {"speakers": ["low", "high"]},
}
train_params = {"data_layer_params": {"dataset_files": [data_dir + "train_speakers_aligned.csv"]}}
eval_params = {"data_layer_params": {"dataset_files": [data_dir + "dev_speakers_aligned.csv"]}}
infer_params = {"data_layer_params": {"dataset_files": [data_dir + "test_speakers.csv"]}}
