"""Speech of text by an ONNX model: text in sentences, sentences in phonemes, phonemes in sound."""
