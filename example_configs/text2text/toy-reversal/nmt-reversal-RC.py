"""Toy task: a recurrent network encodes a line of letters, and convolutions write it in reverse.

Run:  python run.py --config_file=example_configs/text2text/toy-reversal/nmt-reversal-RC.py --mode=train_eval
"""
from open_seq2seq.parts.rnn.core_cells import LSTMCell

base_config = "nmt-reversal-CC.py"

base_params = {
    "logdir": "nmt-reversal-RC",
    "encoder": "BidirectionalRNNEncoderWithEmbedding",
    "encoder_params": {
        "core_cell": LSTMCell,
        "core_cell_params": {"num_units": 64, "forget_bias": 1.0},
        "encoder_layers": 2,
        "encoder_dp_input_keep_prob": 0.8,
        "encoder_dp_output_keep_prob": 1.0,
        "encoder_use_skip_connections": False,
        "src_emb_size": 128,
    },
}
