"""English to German on Multi30k: a small GNMT in NVIDIA's form that two CPU cores can train.

Training is short, so embeddings must not start small, nor attention almost uniform: see embedding_scale and
score_scale_init. The data are those of transformer-multi30k.py.

Run:  python run.py --config_file=example_configs/text2text/en-de/gnmt-multi30k.py --mode=train_eval
Time: 57 minutes in float32 on two cores of an AMD EPYC
Score: 37.3 BLEU on test_2016_flickr (docs/translation.md)
"""
from open_seq2seq.data.text2text.text2text import SpecialTextTokens
from open_seq2seq.parts.rnn.core_cells import LSTMCell

base_config = "transformer-multi30k.py"
num_units = 320
num_layers = 2
keep_prob = 0.7
max_steps = 2800
cells = {"core_cell": LSTMCell, "core_cell_params": {"num_units": num_units, "forget_bias": 1.0},
         "embedding_scale": 10.0,
         "initializer": "random_uniform", "initializer_params": {"minval": -0.1, "maxval": 0.1}}

base_params = {
    "max_steps": max_steps,
    "eval_steps": 500,
    "logdir": "gnmt-multi30k-en-de",

    "optimizer": "Adam",
    "optimizer_params": {},
    "max_grad_norm": 5.0,
    "lr_policy": "exp_decay",
    "lr_policy_params": {"learning_rate": 2e-3, "warmup_steps": 200, "begin_decay_at": max_steps // 2,
                         "decay_steps": max_steps // 8, "decay_rate": 0.5, "use_staircase_decay": True},

    "encoder": "GNMTLikeEncoderWithEmbedding",
    "encoder_params": {
        **cells,
        "src_emb_size": num_units,
        "encoder_layers": num_layers,
        "encoder_dp_input_keep_prob": keep_prob,
        "encoder_dp_output_keep_prob": 1.0,
        "encoder_use_skip_connections": True,
    },

    "decoder": "RNNDecoderWithAttention",
    "decoder_params": {
        **cells,
        "tgt_emb_size": num_units,
        "decoder_layers": num_layers,
        "decoder_dp_input_keep_prob": keep_prob,
        "decoder_dp_output_keep_prob": 0.8,
        "decoder_use_skip_connections": True,
        "attention_type": "gnmt_v2",
        "attention_layer_size": num_units,
        "score_scale_init": 3.0,
        "input_feeding": False,
        "encoder_state": "dense",
        "weight_tied": True,
        "share_source_embedding": True,
        "beam_width": 4,
        "length_penalty": 0.6,
        "GO_SYMBOL": SpecialTextTokens.S_ID.value,
        "END_SYMBOL": SpecialTextTokens.EOS_ID.value,
        "PAD_SYMBOL": SpecialTextTokens.PAD_ID.value,
    },
}
