{{- define "forewarn.image" -}}
{{- if .Values.image.digest -}}
{{ .Values.image.repository }}@{{ .Values.image.digest }}
{{- else -}}
{{ .Values.image.repository }}:{{ .Values.image.tag | default .Chart.AppVersion }}
{{- end -}}
{{- end }}

{{- define "forewarn.config" -}}
{{- $config := deepCopy .Values.config -}}
{{- if .Values.auditOnly -}}
{{- $config = mergeOverwrite $config (.Files.Get "files/audit-only.yaml" | fromYaml) -}}
{{- end -}}
{{ toYaml $config }}
{{- end }}
