"""ResNet of Keras layers, written independently of the package, with weights copied from a ``ResNetEncoder``."""

from __future__ import annotations

import tensorflow as tf

from open_seq2seq.parts.component import named_variables

BLOCKS = {18: (2, 2, 2, 2), 50: (3, 4, 6, 3)}


class KerasResNet:
    """Keras' functional API, layer by layer; the layers are listed with the names of the encoder's variables."""

    def __init__(self, size, version, side, filters=64, cifar=False):
        self.layers, self.version = {}, version
        bottleneck = size >= 50 and not cifar
        blocks = ((size - 2) // 6,) * 3 if cifar else BLOCKS[size]
        image = tf.keras.Input([side, side, 3])
        x = self.conv(image, "first", filters, 3 if cifar else 7, 1 if cifar else 2)
        if version != 2:
            x = self.relu_bn(x, "first_norm")
        if not cifar:
            x = tf.keras.layers.MaxPool2D(3, 2, padding="same")(x)
        number = 0
        for group, count in enumerate(blocks):
            for place in range(count):
                stride = 2 if group and not place else 1
                block = self.bottleneck if bottleneck else self.basic
                x = block(x, f"blocks_{number}", filters * 2 ** group, stride, place == 0)
                number += 1
        if version == 2:
            x = self.relu_bn(x, "last_norm")
        x = tf.keras.layers.GlobalAveragePooling2D()(x)
        self.model = tf.keras.Model(image, x)

    def conv(self, x, name, filters, size, stride=1):
        if stride > 1:
            x = tf.keras.layers.ZeroPadding2D((size - 1) // 2)(x)
        layer = tf.keras.layers.Conv2D(filters, size, stride, padding="valid" if stride > 1 else "same",
                                       use_bias=False)
        self.layers[name] = layer
        return layer(x)

    def bn(self, x, name):
        self.layers[name] = tf.keras.layers.BatchNormalization(momentum=0.997, epsilon=1e-5)
        return self.layers[name](x)

    def relu_bn(self, x, name):
        return tf.keras.layers.ReLU()(self.bn(x, name))

    def basic(self, x, name, filters, stride, projects):
        return self.chain(x, name, [(filters, 3, stride), (filters, 3, 1)], projects, stride)

    def bottleneck(self, x, name, filters, stride, projects):
        first, second = (stride, 1) if self.version == 1 else (1, stride)
        return self.chain(x, name, [(filters, 1, first), (filters, 3, second), (4 * filters, 1, 1)], projects, stride)

    def chain(self, x, name, convolutions, projects, stride):
        shortcut, channels = x, convolutions[-1][0]
        for number, (filters, size, step) in enumerate(convolutions):
            if self.version == 2:
                x = self.relu_bn(x, f"{name}/norms_{number}")
                if number == 0 and projects:
                    shortcut = self.conv(x, f"{name}/projection", channels, 1, stride)
                x = self.conv(x, f"{name}/convolutions_{number}", filters, size, step)
                continue
            if number == 0 and projects:
                shortcut = self.bn(self.conv(x, f"{name}/projection", channels, 1, stride), f"{name}/projection_norm")
            x = self.bn(self.conv(x, f"{name}/convolutions_{number}", filters, size, step), f"{name}/norms_{number}")
            if number < len(convolutions) - 1:
                x = tf.keras.layers.ReLU()(x)
        x = tf.keras.layers.Add()([x, shortcut])
        return x if self.version == 2 else tf.keras.layers.ReLU()(x)

    def copy_from(self, encoder):
        """Copies every variable by its name; fails if one is left on either side."""
        names = {"blocks": "block", "norms": "norm", "convolutions": "convolution"}
        variables = dict(named_variables(encoder))
        for name, layer in self.layers.items():
            for long, short in names.items():
                name = name.replace(f"{long}_", f"{short}_")
            kinds = ("kernel",) if isinstance(layer, tf.keras.layers.Conv2D) else (
                "gamma", "beta", "moving_mean", "moving_variance")
            layer.set_weights([variables.pop(f"{name}/{kind}").numpy() for kind in kinds])
        assert not variables
