import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { useState } from "react";
import { CHOICES } from "@/../generated/choices";
import type { NewToken } from "@/api/access";
import { api, got } from "@/api/client";
import { projects } from "@/api/ledger";
import { Button } from "@/components/Button";
import { Dialog } from "@/components/Dialog";
import { ProblemBox } from "@/components/feedback";
import { Field } from "@/components/Field";
import { Secret } from "./Secret";

const DAYS = ["7", "30", "90", "365", ""] as const;

/** Makes a token and shows it, this once: it is in no list, URL or store afterwards. */
export function NewTokenDialog({ onClose }: { onClose: () => void }) {
  const client = useQueryClient();
  const known = useQuery(projects()).data?.items ?? [];
  const [name, setName] = useState("");
  const [role, setRole] = useState<NewToken["role"]>("viewer");
  const [project, setProject] = useState("default");
  const [days, setDays] = useState<string>("90");
  const [requests, setRequests] = useState("");
  const [units, setUnits] = useState("");
  const [atOnce, setAtOnce] = useState("");
  const [priority, setPriority] = useState<NonNullable<NewToken["priority"]>>("standard");
  const made = useMutation({
    mutationFn: () =>
      got(
        api.POST("/api/v1/tokens", {
          body: {
            name: name.trim(),
            role,
            project,
            expires_at: days ? new Date(Date.now() + Number(days) * 86_400_000).toISOString() : null,
            requests_per_minute: requests ? Number(requests) : null,
            tokens_per_minute: units ? Number(units) : null,
            concurrent_requests: atOnce ? Number(atOnce) : null,
            priority,
          },
        }),
      ),
    onSuccess: () => client.invalidateQueries({ queryKey: ["tokens"] }),
    gcTime: 0, // the secret goes with the dialog
  });
  if (made.data) return <Secret name={made.data.name} token={made.data.token} onClose={onClose} />;
  return (
    <Dialog open onClose={onClose} title="New token" text="For a person, a program, or a client of the gateway.">
      <form
        className="stack"
        onSubmit={(event) => {
          event.preventDefault();
          made.mutate();
        }}
      >
        <Field label="Name: who or what will use it" wrong={name.length > 300 ? "Up to 300 characters." : ""}>
          {(field) => <input {...field} className="input" required value={name} onChange={(event) => setName(event.target.value)} />}
        </Field>
        <Field label="Role">
          {(field) => (
            <select {...field} className="select" value={role} onChange={(event) => setRole(event.target.value as NewToken["role"])}>
              {CHOICES.Role.map((each) => <option key={each}>{each}</option>)}
            </select>
          )}
        </Field>
        <Field label="Project that its use of models counts for">
          {(field) => (
            <select {...field} className="select" value={project} onChange={(event) => setProject(event.target.value)}>
              {["default", ...known.map((each) => each.name).filter((each) => each !== "default")].map((each) => <option key={each}>{each}</option>)}
            </select>
          )}
        </Field>
        <Field label="Expires">
          {(field) => (
            <select {...field} className="select" value={days} onChange={(event) => setDays(event.target.value)}>
              {DAYS.map((each) => <option key={each} value={each}>{each ? `in ${each} days` : "never"}</option>)}
            </select>
          )}
        </Field>
        <div className="grid two">
          <Field label="Requests a minute">
            {(field) => <input {...field} className="input" type="number" min="1" placeholder="no limit" value={requests} onChange={(event) => setRequests(event.target.value)} />}
          </Field>
          <Field label="Tokens a minute">
            {(field) => <input {...field} className="input" type="number" min="1" placeholder="no limit" value={units} onChange={(event) => setUnits(event.target.value)} />}
          </Field>
        </div>
        <Field label="Requests that are open at once">
          {(field) => <input {...field} className="input" type="number" min="1" placeholder="no limit" value={atOnce} onChange={(event) => setAtOnce(event.target.value)} />}
        </Field>
        <Field label="Priority of its requests: higher ones go first">
          {(field) => (
            <select {...field} className="select" value={priority} onChange={(event) => setPriority(event.target.value as typeof priority)}>
              {CHOICES.Priority.map((each) => <option key={each}>{each}</option>)}
            </select>
          )}
        </Field>
        <ProblemBox error={made.error} />
        <div className="actions">
          <Button onClick={onClose}>Cancel</Button>
          <Button type="submit" tone="primary" disabled={made.isPending}>Make the token</Button>
        </div>
      </form>
    </Dialog>
  );
}
