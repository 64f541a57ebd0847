"""Offline jobs. analyze, calibrate and sweep read a whole collection, through the official client, and write nothing to it;
undo writes what was left out of one.

source     a collection as jobs read it: the contract, and the text and vector of a point
databases  which databases the jobs read, and how one is opened
qdrant     a Qdrant collection as a source
chroma     a Chroma collection as a source
milvus     a Milvus collection as a source
pinecone   a namespace of a Pinecone index as a source
files      files, the console, progress bars, credentials
check      `check --connect`: reach, credentials and a search
analyze    reports a collection's copies
calibrate  proposes a distance threshold for a collection
sweep      finds which points could go, without a search for each
evaluate   measures policies on labelled data
undo       stores the points that the write gate left out, from its journal
"""
