"""The judge of loops: what does a step bring that its scope did not know (docs/loops.md).

Pure. `reading` turns texts into hashes, once, when an outcome is taken in; `memory` folds readings into a record of
bounded size. Nothing here knows a clock, a disk or a model, or walks the history.
"""
