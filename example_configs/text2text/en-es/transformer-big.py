"""English to Spanish: Transformer big in mixed precision.

Data: ParaCrawl, Europarl and Common Crawl, encoded with a joint SentencePiece
model of 32768 pieces. scripts/prepare_wmt.py --target_lang=es --output_dir=wmt16_en_es prepares them from the
downloaded files.
Run:  python run.py --config_file=example_configs/text2text/en-es/transformer-big.py --mode=train_eval
"""
base_config = "../en-de/transformer-big.py"
data_root = "wmt16_en_es/"
source, target = "en", "es"
dev_files = ("wmt13-en-es.src", "wmt13-en-es.ref")
test_file = "wmt13-en-es.src"

base_params = {"eval_steps": 4001, "save_checkpoint_steps": 4001}
