"""Jasper DR 10x5: dense residual connections and masked features, trained with NovoGrad.

Published: greedy WER 3.61 on dev-clean, 3.77 on test-clean.

Run:  python run.py --config_file=example_configs/speech2text/jasper10x5_LibriSpeech_nvgrad_masks.py --mode=train_eval
"""
base_config = "jasper10x5_LibriSpeech_nvgrad.py"
base_params = {"logdir": "jasper10x5_dr_masks"}
train_params = {
    "data_layer_params": {
        "augmentation": {
            "speed_perturbation_ratio": "<drop>",
            "n_freq_mask": 2, "width_freq_mask": 6,
            "n_time_mask": 2, "width_time_mask": 6,
        },
    },
}
