"""`vecsieve calibrate`: how near is a copy in this collection? A sample is read, a cut proposed, a profile written."""
