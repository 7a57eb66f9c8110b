# A small AlexNet in the style of the configs of NVIDIA's OpenSeq2Seq; pictures of CIFAR-10 in cifar/.
import tensorflow as tf

from open_seq2seq.data import CifarDataLayer
from open_seq2seq.decoders import FullyConnectedDecoder
from open_seq2seq.encoders.cnn_encoder import CNNEncoder
from open_seq2seq.losses import CrossEntropyLoss
from open_seq2seq.models import Image2Label

base_model = Image2Label
base_params = {
    "random_seed": 0, "use_horovod": False, "max_steps": 20, "num_gpus": 1, "batch_size_per_gpu": 4,
    "dtype": tf.float32, "save_summaries_steps": 20, "print_loss_steps": 10, "print_samples_steps": 20,
    "eval_steps": 20, "save_checkpoint_steps": 20, "logdir": "images_log",
    "optimizer": "Momentum", "optimizer_params": {"momentum": 0.90},
    "lr_policy": tf.train.cosine_decay, "lr_policy_params": {"learning_rate": 0.001},
    "initializer": tf.variance_scaling_initializer,
    "regularizer": tf.contrib.layers.l2_regularizer, "regularizer_params": {"scale": 0.0002},
    "summaries": ["learning_rate", "variables", "gradients", "larc_summaries"],
    "encoder": CNNEncoder,
    "encoder_params": {
        "data_format": "channels_first",
        "cnn_layers": [
            (tf.layers.conv2d, {"filters": 8, "kernel_size": (5, 5), "strides": (2, 2), "padding": "SAME",
                                "activation": tf.nn.relu}),
            (tf.layers.max_pooling2d, {"pool_size": (3, 3), "strides": (2, 2)})],
        "fc_layers": [(tf.layers.dense, {"units": 16, "activation": tf.nn.relu}), (tf.layers.dropout, {"rate": 0.5})]},
    "decoder": FullyConnectedDecoder,
    "decoder_params": {"output_dim": 10},
    "loss": CrossEntropyLoss,
    "data_layer": CifarDataLayer,
    "data_layer_params": {"data_dir": "cifar", "image_size": 28, "num_classes": 10},
}
