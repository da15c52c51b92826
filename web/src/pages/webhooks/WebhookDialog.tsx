import { useMutation, useQueryClient } from "@tanstack/react-query";
import { useState } from "react";
import { CHOICES } from "@/../generated/choices";
import { api, got, type Schemas } from "@/api/client";
import { type Webhook, webhookEtag } from "@/api/webhooks";
import { Button } from "@/components/Button";
import { Dialog } from "@/components/Dialog";
import { ProblemBox } from "@/components/feedback";
import { Field } from "@/components/Field";

type Kind = Schemas["AlertKind"];
const VARIABLE = "env:MEDLEY_WEBHOOK_";

/** Makes a webhook, or changes or removes one. The key that signs is named, never typed in here. */
export function WebhookDialog({ webhook, onClose }: { webhook: Webhook | null; onClose: () => void }) {
  const client = useQueryClient();
  const [name, setName] = useState(webhook?.name ?? "");
  const [url, setUrl] = useState(webhook?.url ?? "");
  const [secret, setSecret] = useState(webhook ? "" : VARIABLE);
  const [kinds, setKinds] = useState<Kind[]>((webhook?.kinds ?? []) as Kind[]);
  const [internal, setInternal] = useState(webhook?.internal ?? false);
  const path = { webhook: name };
  const over = async () => {
    await client.invalidateQueries({ queryKey: ["webhooks"] });
    onClose();
  };
  const save = useMutation({
    mutationFn: async () => {
      const header = webhook ? { "if-match": await webhookEtag(name) } : { "if-none-match": "*" };
      return got(api.PUT("/api/v1/webhooks/{webhook}", { params: { path, header }, body: { url, secret: secret || null, kinds, internal } }));
    },
    onSuccess: over,
  });
  const remove = useMutation({
    mutationFn: async () => got(api.DELETE("/api/v1/webhooks/{webhook}", { params: { path, header: { "if-match": await webhookEtag(name) } } })),
    onSuccess: over,
  });
  const toggle = (kind: Kind) => setKinds(kinds.includes(kind) ? kinds.filter((each) => each !== kind) : [...kinds, kind]);
  return (
    <Dialog open onClose={onClose} title={webhook ? `Webhook ${webhook.name}` : "New webhook"} text="Deliveries are signed with a key that stands in a variable of every process that sends alerts (docs/cost.md says how receivers check it).">
      <form
        className="stack"
        onSubmit={(event) => {
          event.preventDefault();
          save.mutate();
        }}
      >
        {!webhook && (
          <Field label="Name">
            {(field) => <input {...field} className="input" required maxLength={63} value={name} onChange={(event) => setName(event.target.value)} />}
          </Field>
        )}
        <Field label="Address">
          {(field) => <input {...field} className="input" type="url" required placeholder="https://…" value={url} onChange={(event) => setUrl(event.target.value)} />}
        </Field>
        <Field label={webhook ? "Variable with the key; empty: as it is" : "Variable with the key"}>
          {(field) => <input {...field} className="input mono" required={!webhook} placeholder={webhook?.secret} value={secret} onChange={(event) => setSecret(event.target.value)} />}
        </Field>
        <fieldset className="ticks">
          <legend>Alerts; none ticked: all</legend>
          {CHOICES.AlertKind.map((kind) => (
            <label key={kind}>
              <input type="checkbox" checked={kinds.includes(kind)} onChange={() => toggle(kind)} /> {kind}
            </label>
          ))}
        </fieldset>
        <label className="tick">
          <input type="checkbox" checked={internal} onChange={() => setInternal(!internal)} /> Allow http, private addresses and this machine
        </label>
        <ProblemBox error={save.error ?? remove.error} />
        <div className="actions">
          {webhook && (
            <Button tone="danger" disabled={remove.isPending} onClick={() => remove.mutate()}>
              Remove
            </Button>
          )}
          <Button onClick={onClose}>Cancel</Button>
          <Button type="submit" tone="primary" disabled={save.isPending}>Save</Button>
        </div>
      </form>
    </Dialog>
  );
}
