"""What a process tells about itself.

labels      the closed sets behind every label, log field and report
instruments how a metric is declared: its name, help, labels and variable at once
metrics     every metric, and the ways to record
exposition  the text a scrape gets, of one process or of several workers
recent      the last searches, candidate by candidate; repeats by collection over the last hour
pools       recent pools kept for what another policy would do
rejudging   such a pool without texts and vectors, and the page that a policy chooses from it
requests    one request, counted when it ends
talk        what `serve` says to a person: banner, text log, summary
log         the access log and all other lines, bounded and redacted
tracing     spans' times and parents; stages of a search
spans       which requests are recorded, and the values of a span
otel        the OpenTelemetry SDK, loaded only where traces are on
"""
