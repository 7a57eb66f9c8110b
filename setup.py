"""Metadata and extras; the settings of the development tools are in pyproject.toml."""

import re
from pathlib import Path

from setuptools import find_packages, setup
from setuptools.command.build_py import build_py

HERE = Path(__file__).parent
SHIPPED = ("example_configs", "scripts", "toy_models")  # installed in open_seq2seq/share
# The server; its tests have passed with 0.165, 0.26, 0.0.34, 0.54 and 17.4.
SERVE = ["fastapi>=0.115", "prometheus-client>=0.20", "python-multipart>=0.0.18", "uvicorn>=0.30", "websockets>=13"]
MLFLOW = ["mlflow-skinny>=3", "alembic", "sqlalchemy>=2"]
WANDB = ["wandb>=0.19.10"]  # the first that leaves other runs of the process alone
WYOMING = ["wyoming>=1.10,<2"]  # tried with 1.10.2
TENSORFLOW = ">=2.18,<2.22"  # the tests have passed with 2.18 and 2.21
# PyPI has wheels of tensorflow-cpu for Linux on x86_64 and for Windows; elsewhere, tensorflow itself has no CUDA.
HAS_CPU_BUILD = "sys_platform == 'win32' or (sys_platform == 'linux' and platform_machine == 'x86_64')"
HAS_NO_CPU_BUILD = "sys_platform != 'win32' and (sys_platform != 'linux' or platform_machine != 'x86_64')"


def read_version() -> str:
    """Returns the version from open_seq2seq/version.py, without importing TensorFlow."""
    text = (HERE / "open_seq2seq" / "version.py").read_text(encoding="utf-8")
    match = re.search(r"^__version__ = \"([^\"]+)\"", text, re.MULTILINE)
    if match is None:
        raise RuntimeError("open_seq2seq/version.py has no line __version__ = \"…\".")
    return match.group(1)


def read_description() -> str:
    """Returns the README, the long description of the package."""
    readme = HERE / "README.md"
    return readme.read_text(encoding="utf-8") if readme.exists() else ""


class BuildWithRecipes(build_py):
    """Adds copies of the recipes, scripts and toy models to the package."""

    def _shipped(self) -> dict[str, str]:
        """Returns the files, and where the build puts them."""
        files = [path.relative_to(HERE) for folder in SHIPPED for path in sorted((HERE / folder).rglob("*"))
                 if path.is_file() and "__pycache__" not in path.parts]
        return {str(path): str(Path(self.build_lib, "open_seq2seq", "share", path)) for path in files}

    def run(self) -> None:
        super().run()
        for source, target in ({} if self.editable_mode else self._shipped()).items():
            self.mkpath(str(Path(target).parent))
            self.copy_file(source, target)

    def get_source_files(self) -> list[str]:
        return [*super().get_source_files(), *self._shipped()]

    def get_outputs(self, include_bytecode: bool = True) -> list[str]:
        return [*super().get_outputs(include_bytecode), *self._shipped().values()]


setup(
    name="open-seq2seq",
    version=read_version(),
    description="Train sequence-to-sequence models from a config file, with mixed precision in one line.",
    long_description=read_description(),
    long_description_content_type="text/markdown",
    license="Apache-2.0",
    packages=find_packages(include=["open_seq2seq", "open_seq2seq.*"]),
    package_data={"open_seq2seq": ["py.typed", "server/static/*"]},
    cmdclass={"build_py": BuildWithRecipes},
    python_requires=">=3.11",
    classifiers=[
        "Development Status :: 3 - Alpha",
        "Intended Audience :: Science/Research",
        "Programming Language :: Python :: 3.11",
        "Programming Language :: Python :: 3.13",
        "Topic :: Scientific/Engineering :: Artificial Intelligence",
    ],
    # TensorFlow comes by an extra, cpu or gpu: pip would lay one build over the other.
    install_requires=[
        "bokeh>=3.4,<4",  # the page of --mode=report; tried with 3.9.2
        "librosa>=0.11",
        "numpy",
        "pyyaml",
        "rapidfuzz",
        "rich",
        "sacrebleu",
        "safetensors",
        "sentencepiece",
        "soundfile",
        "soxr",
        "tensorboard",
    ],
    extras_require={
        "cpu": [f"tensorflow-cpu{TENSORFLOW}; {HAS_CPU_BUILD}", f"tensorflow{TENSORFLOW}; {HAS_NO_CPU_BUILD}"],
        # Horovod with NCCL compiles and links against the CUDA wheels of 2.18.1 and of 2.21.0 (install_horovod.sh).
        "gpu": [f"tensorflow[and-cuda]{TENSORFLOW}"],
        # No extra for Horovod: pip alone cannot build it; scripts/install_horovod.sh does.
        "ctranslate2": ["ctranslate2>=4.8,<5"],  # the tests have passed with 4.8.5
        "litert": ["ai-edge-litert>=2.1", "ai-edge-quantizer>=0.10"],  # tried with 2.3.0 and 0.10.0
        "onnx": ["onnxruntime>=1.20", "tf2onnx>=1.17"],  # tried with 1.32 and 1.17
        "align": ["pocketsphinx>=5.1"],  # scripts/align_speech.py; 5.1.1 aligned 450 of 450 clips
        "espeak": ["espeakng-loader", "phonemizer>=3.4"],  # GPL; phonemes of espeak-ng, in speech synthesis
        "numbers": ["num2words>=0.5.14"],  # texts with digits, in speech synthesis
        "plots": ["matplotlib"],  # --png of benchmarks/precision_curves.py, pictures of alignments
        # Trackers; the tests have passed with 3.17.2 and 0.31.0. Every mlflow contains mlflow-skinny; its default store
        # is an SQLite database.
        "mlflow": MLFLOW,
        "wandb": WANDB,
        "serve": SERVE,
        "wyoming": WYOMING,  # serve --wyoming_port
        # python_speech_features and librosa, a dependency, are what the features of speech are compared with.
        "test": [*SERVE, *WYOMING, "ai-edge-litert>=2.1", "ai-edge-quantizer>=0.10", "ckpt-chaos>=0.1.8",
                 "coverage>=7.10", "ctranslate2>=4.8,<5", "huggingface_hub>=0.30", "hypothesis>=6.100", "ipykernel",
                 "jiwer", "jsonschema>=4", "libretranslatepy>=2.1", "matplotlib", "nbclient", "num2words>=0.5.14",
                 "onnxruntime>=1.20", "openai>=1.60", "pocketsphinx>=5.1", "pytest>=8", "pytest-cov>=7",
                 "pytest-timeout>=2.3", "pytest-xdist>=3.6", "python_speech_features", "setuptools>=64", "srt>=3.5",
                 "tf2onnx>=1.17", "webvtt-py>=0.5", "wheel"],
        # What make test-outside drives Chromium and compares exports with; 1.11.0, 2.0.1, 2.13 and 5.24 have passed.
        "outside": [*MLFLOW, *WANDB, "argostranslate>=1.11", "optuna>=4", "playwright>=1.50", "sherpa-onnx>=2",
                    "torch>=2.5", "transformers>=5"],
        "lint": ["mypy>=1.15", "ruff>=0.11", "types-PyYAML"],
        "docs": ["mkdocs>=1.6,<2", "mkdocs-material>=9.6"],
    },
    entry_points={"console_scripts": ["open_seq2seq=open_seq2seq.cli:main"]},
)
