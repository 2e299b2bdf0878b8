"""``gpudiag watch``: a flight recorder. Two children look, at processes and at GPUs; their parent keeps the ring."""
