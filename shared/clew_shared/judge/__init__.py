"""The judge of loops, pure: `reading` turns a step into hashes, `memory` folds what it brings (docs/loops.md)."""
