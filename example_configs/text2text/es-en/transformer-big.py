"""Spanish to English: Transformer big in mixed precision.

Run:  python run.py --config_file=example_configs/text2text/es-en/transformer-big.py --mode=train_eval
"""
base_config = "../en-es/transformer-big.py"
source, target = "es", "en"
dev_files = ("wmt13-en-es.ref", "wmt13-en-es.src")
test_file = "wmt13-en-es.ref"
