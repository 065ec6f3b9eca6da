"""Text: secrets redacted, errors worded, near-identical texts recognised."""
