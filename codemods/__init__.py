"""The linter and its fixes. Installs as `shapecheck.codemods`."""
