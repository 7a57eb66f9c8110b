"""Spoken digits: joint CTC and attention that two CPU cores can train.

Run:  python run.py --config_file=example_configs/speech2text/digits-jca.py --mode=train_eval
Time: 35 minutes on one core of an AMD EPYC without half-precision instructions
Score: word error rate 0.4 % on digits, 2.2 % on strings (docs/speech-recognition.md)
Test: as for digits-w2l.py
"""
base_config = "digits-w2l.py"


def block(repeat, kernel_size, num_channels, dropout_keep_prob, stride=1):
    return {"type": "conv1d", "repeat": repeat, "kernel_size": [kernel_size], "stride": [stride],
            "num_channels": num_channels, "padding": "SAME", "dilation": [1], "dropout_keep_prob": dropout_keep_prob}


base_params = {
    "num_epochs": 12,
    "logdir": "digits-jca",
    "lr_policy_params": {"learning_rate": 0.002, "warmup_steps": 200},

    "encoder": "ListenAttendSpellEncoder",
    "encoder_params": {
        "convnet_layers": [
            block(1, 11, 96, 0.9, stride=2),
            block(2, 11, 96, 0.9),
            block(2, 13, 128, 0.8),
        ],
        "recurrent_layers": [{"type": "gru", "num_layers": 1, "hidden_dim": 128, "dropout_keep_prob": 0.8}],
        "dropout_keep_prob": 0.8,
        "activation_fn": "relu",
        "initializer": "GlorotNormal",
    },

    "decoder": "JointCTCAttentionDecoder",
    "decoder_params": {
        "attn_decoder": "ListenAttendSpellDecoder",
        "attn_decoder_params": {
            "tgt_emb_size": 64,
            "attention_params": {"attention_dim": 128, "attention_type": "chorowski"},
            "rnn_type": "lstm",
            "hidden_dim": 192,
            "num_layers": 1,
            "dropout_keep_prob": 0.8,
        },
        "ctc_decoder": "FullyConnectedCTCDecoder",
        "ctc_decoder_params": {},
        "beam_search_params": {"beam_width": 4, "ctc_weight": 0.3},
        "language_model_params": {"use_language_model": False},
    },

    "loss": "MultiTaskCTCEntropyLoss",
    "loss_params": {
        "seq_loss_params": {"offset_target_by_one": False, "average_across_timestep": True, "do_mask": True},
        "ctc_loss_params": {},
        "lambda_value": 0.5,
    },
    "data_layer_params": {"autoregressive": True},
}
