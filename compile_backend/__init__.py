"""The torch.compile backend. Installs as `shapecheck.compile_backend`."""
