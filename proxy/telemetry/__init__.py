"""What a process tells about itself.

labels      the closed sets of every label, log field and report
instruments how a metric is declared: its name, help, labels and variable at once
metrics     every metric, and the methods that record several at once
exposition  the text a scrape gets, of one process or of several workers
reports     the figures of one call, from which metrics, log and header are written
requests    one request, counted when it ends
verdict     whether mode `on` pays, from what mode shadow measured, and its words
log         the access log and all other lines, bounded and redacted
tracing     which requests are recorded, their spans, and the stages of a search
spans       the values of a span
otel        the OpenTelemetry SDK, loaded only where traces are on
"""
