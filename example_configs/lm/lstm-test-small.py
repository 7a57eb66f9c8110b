"""WikiText-2: a small recurrent language model, for a test.

Run:  python run.py --config_file=example_configs/lm/lstm-test-small.py --mode=train_eval
"""
base_config = "lstm-wkt2-fp32.py"
steps = 10

base_params = {
    "use_horovod": False,
    "num_gpus": 2,
    "eval_steps": 20,
    "logdir": "LSTM-FP32-2GPU-SMALL",
    "lr_policy_params": {"learning_rate": 0.0009},
    "encoder_params": {"core_cell_params": {"num_units": 128}, "encoder_layers": 2, "emb_size": 64,
                       "num_tokens_gen": 200},
    "data_layer_params": {"bptt": 12},
}
