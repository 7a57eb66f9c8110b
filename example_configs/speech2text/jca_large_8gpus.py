"""Joint CTC and attention on convolutions.

Kim et al. 2016, https://arxiv.org/abs/1609.06773; LibriSpeech, 960 hours.
No result was published for this config. Evaluation and inference combine both decoders; NVIDIA's
OpenSeq2Seq used only attention, which corresponds to ctc_weight 0.0.

Run:  python run.py --config_file=example_configs/speech2text/jca_large_8gpus.py --mode=train_eval
"""
base_config = "w2lplus_large_8gpus.py"


def block(repeat, num_channels, dropout_keep_prob, stride=1):
    return {"type": "conv1d", "repeat": repeat, "kernel_size": [11], "stride": [stride],
            "num_channels": num_channels, "padding": "SAME", "dropout_keep_prob": dropout_keep_prob}


base_params = {
    "batch_size_per_gpu": 64,
    "num_epochs": 50,
    "iter_size": "<drop>",
    "save_summaries_steps": 1100,
    "print_samples_steps": 200,
    "eval_steps": 1100,
    "num_checkpoints": "<drop>",
    "logdir": "jca_large",
    "optimizer": "Adam",
    "lr_policy_params": {"learning_rate": 0.001, "min_lr": 1e-5},
    "larc_params": "<drop>",
    "max_grad_norm": 1.0,
    "regularizer_params": {"scale": 0.0001},

    "encoder": "ListenAttendSpellEncoder",
    "encoder_params": {
        "convnet_layers": [
            block(1, 256, 0.8, stride=2),
            block(7, 256, 0.8),
            block(1, 384, 0.8, stride=2),
            block(3, 512, 0.8),
            block(4, 768, 0.7),
        ],
        "recurrent_layers": [],
        "dropout_keep_prob": 0.8,
        "activation_fn": "relu20",
        "initializer": "GlorotNormal",
    },

    "decoder": "JointCTCAttentionDecoder",
    "decoder_params": {
        "attn_decoder": "ListenAttendSpellDecoder",
        "attn_decoder_params": {
            "tgt_emb_size": 256,
            "pos_embedding": True,
            "attention_params": {"attention_dim": 256, "attention_type": "chorowski", "use_coverage": True,
                                 "num_heads": 1, "plot_attention": True},
            "rnn_type": "lstm",
            "hidden_dim": 512,
            "num_layers": 1,
            "dropout_keep_prob": 0.8,
        },
        "ctc_decoder": "FullyConnectedCTCDecoder",
        "ctc_decoder_params": {},
        "beam_search_params": {"beam_width": 4},
        "language_model_params": {"use_language_model": False},
        "initializer": "GlorotUniform",
    },

    "loss": "MultiTaskCTCEntropyLoss",
    "loss_params": {
        "seq_loss_params": {"offset_target_by_one": False, "average_across_timestep": True, "do_mask": True},
        "ctc_loss_params": {},
        "lambda_value": 0.25,
    },
    "data_layer_params": {"autoregressive": True},
}
