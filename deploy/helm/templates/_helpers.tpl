{{/* One name for all objects: the release's, with the chart's where the release is called otherwise. */}}
{{- define "vecsieve.name" -}}
{{- $name := ternary .Release.Name (printf "%s-vecsieve" .Release.Name) (contains "vecsieve" .Release.Name) -}}
{{- $name | trunc 50 | trimSuffix "-" -}}
{{- end }}

{{- define "vecsieve.selector" -}}
app.kubernetes.io/name: vecsieve
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "vecsieve.labels" -}}
{{ include "vecsieve.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version }}
{{- end }}

{{/* Label of a pod that holds a VecSieve: the PodMonitor looks for it. */}}
{{- define "vecsieve.podLabels" -}}
vecsieve-proxy: "true"
{{- end }}

{{- define "vecsieve.image" -}}
{{- with .Values.image -}}
{{- if .digest }}{{ .repository }}@{{ .digest }}{{ else }}{{ .repository }}:{{ .tag | default $.Chart.AppVersion }}{{ end -}}
{{- end -}}
{{- end }}

{{/* What both placements have. Takes a dictionary: root, host (of the data ports), accept (seconds), resources. */}}
{{- define "vecsieve.container" -}}
name: vecsieve
image: {{ include "vecsieve.image" .root }}
imagePullPolicy: {{ .root.Values.image.pullPolicy }}
env:
  - {name: VECSIEVE_CONFIG, value: "/etc/vecsieve/settings.yaml"}
  - {name: VECSIEVE_LISTEN, value: "{{ .host }}:6343"}
  - {name: VECSIEVE_GRPC_LISTEN, value: "{{ .host }}:6344"}
  - {name: VECSIEVE_ADMIN, value: "0.0.0.0:9464"}
  - {name: VECSIEVE_LIMITS_DRAIN_ACCEPT_SECONDS, value: "{{ .accept }}"}
  - {name: VECSIEVE_LIMITS_DRAIN_SECONDS, value: "25"}
  {{- if eq .host "0.0.0.0" }}
  # Clients keep their connections: without an age a new replica gets no traffic until they reconnect.
  - {name: VECSIEVE_LIMITS_CONNECTION_AGE_SECONDS, value: "{{ .root.Values.connectionAgeSeconds }}"}
  {{- if .root.Values.networkPolicy.enabled }}
  # The inspector's last searches, identifiers only: the network policy opens the admin port to monitoring alone.
  - {name: VECSIEVE_EXPLAIN_KEEP, value: "50"}
  {{- end }}
  {{- end }}
  {{- if .root.Values.tlsSecret }}
  - {name: VECSIEVE_TLS_CERTIFICATE, value: "/etc/vecsieve-tls/tls.crt"}
  - {name: VECSIEVE_TLS_KEY, value: "/etc/vecsieve-tls/tls.key"}
  {{- end }}
  {{- if .root.Values.apiTokenSecret }}
  - {name: VECSIEVE_API_LISTEN, value: "{{ .host }}:9466"}
  - {name: VECSIEVE_API_TOKEN_FILE, value: "/etc/vecsieve-api/token"}
  {{- end }}
  {{- if .root.Values.webhookSecret }}
  - {name: VECSIEVE_WEBHOOK_SECRET_FILE, value: "/etc/vecsieve-webhook/secret"}
  {{- end }}
  {{- with .root.Values.extraEnv }}
  {{- toYaml . | nindent 2 }}
  {{- end }}
ports:
  - {name: vecsieve, containerPort: 6343}
  - {name: vecsieve-grpc, containerPort: 6344}
  - {name: vecsieve-admin, containerPort: 9464}
  {{- if .root.Values.apiTokenSecret }}
  - {name: vecsieve-api, containerPort: 9466}
  {{- end }}
# Ready means listening: a database that is down does not keep a pod from starting, nor take it out of service.
startupProbe:
  httpGet: {path: /readyz, port: vecsieve-admin}
  periodSeconds: 1
  failureThreshold: 60
{{- if eq .host "0.0.0.0" }}
readinessProbe:
  httpGet: {path: /readyz, port: vecsieve-admin}
  periodSeconds: 5
  timeoutSeconds: 3
{{- end }}
# Answered by the event loop that serves requests: the container restarts after the loop was stuck for a minute.
livenessProbe:
  httpGet: {path: /livez, port: vecsieve-admin}
  periodSeconds: 10
  timeoutSeconds: 3
  failureThreshold: 6
resources:
  {{- toYaml .resources | nindent 2 }}
securityContext:
  runAsNonRoot: true
  runAsUser: 65532
  runAsGroup: 65532
  readOnlyRootFilesystem: true
  allowPrivilegeEscalation: false
  capabilities: {drop: [ALL]}
  seccompProfile: {type: RuntimeDefault}
volumeMounts:
  - {name: vecsieve-settings, mountPath: /etc/vecsieve, readOnly: true}
  - {name: vecsieve-tmp, mountPath: /tmp}
  {{- if .root.Values.tlsSecret }}
  - {name: vecsieve-tls, mountPath: /etc/vecsieve-tls, readOnly: true}
  {{- end }}
  {{- if .root.Values.apiTokenSecret }}
  - {name: vecsieve-api, mountPath: /etc/vecsieve-api, readOnly: true}
  {{- end }}
  {{- if .root.Values.webhookSecret }}
  - {name: vecsieve-webhook, mountPath: /etc/vecsieve-webhook, readOnly: true}
  {{- end }}
{{- end }}

{{/* For the chart of an application: an item of its pod's initContainers. */}}
{{- define "vecsieve.sidecar" -}}
{{ include "vecsieve.container" (dict "root" . "host" "127.0.0.1" "accept" "0" "resources" .Values.sidecarResources) }}
restartPolicy: Always  # makes it a sidecar: started before the application, stopped after it
{{- end }}

{{/* Items of the pod's volumes. */}}
{{- define "vecsieve.volumes" -}}
- name: vecsieve-settings
  configMap: {name: {{ include "vecsieve.name" . }}-settings}
# For the private socket between the ports; a few kilobytes.
- name: vecsieve-tmp
  emptyDir: {medium: Memory, sizeLimit: 16Mi}
{{- if .Values.tlsSecret }}
- name: vecsieve-tls
  secret: {secretName: {{ .Values.tlsSecret }}}
{{- end }}
{{- if .Values.apiTokenSecret }}
- name: vecsieve-api
  secret: {secretName: {{ .Values.apiTokenSecret }}}
{{- end }}
{{- if .Values.webhookSecret }}
- name: vecsieve-webhook
  secret: {secretName: {{ .Values.webhookSecret }}}
{{- end }}
{{- end }}
