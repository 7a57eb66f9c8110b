"""WikiText-2: a small language model with the layers of cuDNN, which have emb_size units and no recurrent dropout.

Run:  python run.py --config_file=example_configs/lm/lstm-test-small-cudnn.py --mode=train_eval
"""
base_config = "lstm-test-small.py"

base_params = {
    "logdir": "LSTM-FP32-2GPU-SMALL-CUDNN",
    "encoder_params": {"core_cell": "<drop>", "use_cudnn_rnn": True, "cudnn_rnn_type": "CudnnLSTM",
                       "recurrent_keep_prob": 1.0},
}
