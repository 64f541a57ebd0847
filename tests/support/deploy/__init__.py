"""Manifests, the Dockerfile, Prometheus and Grafana.

manifests         the overlays' objects, rendered once
kustomize         what `kustomize build` makes of our folders
dockerfile        the steps of our Dockerfile without Docker
alert_cases       stories for every alert
prometheus_tools  promtool and the server, where the machine has them
real_prometheus   a real Prometheus server for a test
promql            what an expression names
expositions       a Prometheus exposition, read back
dashboard_lint    the rules of Grafana's dashboard-linter
alone             the command line as where only some extras are installed
"""
