{{- define "medley.labels" -}}
app.kubernetes.io/name: medley
app.kubernetes.io/instance: {{ .root.Release.Name }}
app.kubernetes.io/component: {{ .component }}
{{- end }}

{{- define "medley.image" -}}
{{ .Values.image.repository }}@{{ .Values.image.digest }}
{{- end }}

{{- define "medley.pod" -}}
serviceAccountName: {{ .root.Release.Name }}-{{ .account }}
automountServiceAccountToken: false
{{- with .root.Values.image.pullSecrets }}
imagePullSecrets:
  {{- range . }}
  - name: {{ . }}
  {{- end }}
{{- end }}
{{- with .root.Values.scheduling.nodeSelector }}
nodeSelector: {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .root.Values.scheduling.tolerations }}
tolerations: {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .root.Values.scheduling.priorityClassName }}
priorityClassName: {{ . }}
{{- end }}
securityContext:
  runAsNonRoot: true
  runAsUser: 10001
  runAsGroup: 10001
  fsGroup: 10001
  fsGroupChangePolicy: OnRootMismatch
  seccompProfile: {type: RuntimeDefault}
{{- end }}

{{- define "medley.spread" -}}
topologySpreadConstraints:
  - maxSkew: 1
    topologyKey: kubernetes.io/hostname
    whenUnsatisfiable: ScheduleAnyway
    labelSelector:
      matchLabels: {{- include "medley.labels" . | nindent 8 }}
{{- end }}

{{- define "medley.container" -}}
image: {{ include "medley.image" . }}
imagePullPolicy: IfNotPresent
securityContext:
  allowPrivilegeEscalation: false
  readOnlyRootFilesystem: true
  runAsNonRoot: true
  capabilities: {drop: [ALL]}
{{- end }}

{{- define "medley.environment" -}}
- {name: MEDLEY_HOME, value: /var/lib/medley}
- {name: HOME, value: /var/lib/medley/home}
{{- end }}

{{- define "medley.database" -}}
- name: MEDLEY_DATABASE_URL
  valueFrom:
    secretKeyRef: {name: {{ .Values.database.existingSecret }}, key: url}
{{- end }}

{{- define "medley.skypilot" -}}
- {name: SKYPILOT_GLOBAL_CONFIG, value: /run/skypilot/config.yaml}
{{- end }}

{{- define "medley.clouds" -}}
{{- with .Values.clouds.existingSecret }}
envFrom:
  - secretRef: {name: {{ . }}}
{{- end }}
{{- end }}

{{- define "medley.scratch-mounts" -}}
- {name: scratch, mountPath: /tmp, subPath: tmp}
- {name: scratch, mountPath: /var/lib/medley, subPath: medley}
{{- end }}

{{- define "medley.scratch" -}}
- name: scratch
  emptyDir: {sizeLimit: 4Gi}
{{- end }}

{{- define "medley.database-ca" -}}
- name: database-ca
  secret:
    secretName: {{ .Values.database.existingSecret }}
    optional: true
    items:
      - {key: ca.pem, path: ca.pem}
{{- end }}

{{- define "medley.shared" -}}
- name: shared
  persistentVolumeClaim:
    claimName: {{ .Values.shared.existingClaim | default (printf "%s-shared" .Release.Name) }}
{{- end }}

{{- define "medley.upgrade" -}}
- name: upgrade
  {{- include "medley.container" . | nindent 2 }}
  args: [db, upgrade]
  env:
    {{- include "medley.environment" . | nindent 4 }}
    {{- include "medley.database" . | nindent 4 }}
  resources:
    requests: {cpu: 100m, memory: 512Mi}
    limits: {cpu: "1", memory: 1Gi}
  volumeMounts:
    {{- include "medley.scratch-mounts" . | nindent 4 }}
    - {name: database-ca, mountPath: /run/database, readOnly: true}
{{- end }}

{{- define "medley.reconcile-arguments" -}}
reconcile, --bind, 0.0.0.0, --address, {{ .Values.reconcile.address | quote }}, --hub-port, "7501", --registry-port, "7502", --demand-port, "7503"
{{- end }}

{{- define "medley.reconcile-mounts" -}}
{{- include "medley.scratch-mounts" . }}
- {name: shared, mountPath: /var/lib/medley/control, subPath: control}
- {name: shared, mountPath: /var/lib/medley/profiles, subPath: profiles}
- {name: state, mountPath: /var/lib/medley/control/skypilot, subPath: skypilot}
- {name: state, mountPath: /var/lib/medley/home, subPath: home}
- {name: skypilot, mountPath: /run/skypilot, readOnly: true}
- {name: database-ca, mountPath: /run/database, readOnly: true}
{{- end }}

{{- define "medley.reconcile-volumes" -}}
{{- include "medley.scratch" . }}
{{ include "medley.database-ca" . }}
{{ include "medley.shared" . }}
- name: skypilot
  configMap:
    name: {{ .Release.Name }}-skypilot
{{- end }}
