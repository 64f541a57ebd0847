"""Collections and labelled sets of the offline commands and the demo.

memory_source    a collection in memory, read as jobs read one
searched_source  the same, which writes down every call
analyses         a planted collection of two sources, read and judged
calibrations     a finished calibration
profiles         a profile as `vecsieve calibrate` writes it
reports          reports with everything filled in
journals         what a journal has of points that were left out
chunks           chunks for the optimizer
labelled_folders a labelled set that can be worked out by hand
eval_data        where the labelled sets are on this machine
word_model       a stand-in for the model of Weaviate's text2vec-transformers
tiny_corpus      a corpus of a few chunks in four dimensions
build_corpus     builds the demo's data
demo_policies    policies as the demo's proxy resolves them
demo_picture     the picture in README
"""
