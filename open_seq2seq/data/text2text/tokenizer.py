"""Ids of special tokens, under the names by which configs for NVIDIA's OpenSeq2Seq import them."""

from open_seq2seq.data.text2text.vocabulary import SpecialTextTokens

PAD_ID = SpecialTextTokens.PAD_ID.value
EOS_ID = SpecialTextTokens.EOS_ID.value
