import { useMutation, useQueryClient } from "@tanstack/react-query";
import { useState } from "react";
import { api, got, type Schemas } from "@/api/client";
import { Button } from "@/components/Button";
import { Dialog } from "@/components/Dialog";
import { ProblemBox } from "@/components/feedback";
import { Field } from "@/components/Field";

type Project = Schemas["Project"];

const LIMITS = [
  { name: "requests_per_minute", label: "Requests a minute" },
  { name: "tokens_per_minute", label: "Tokens a minute, of prompts and answers" },
  { name: "concurrent_requests", label: "Requests that are open at once" },
] as const;
type Limits = Record<(typeof LIMITS)[number]["name"], string>;

/** Makes a project, or changes what its tokens may use together at each gateway. */
export function ProjectDialog({ project, onClose }: { project: Project | null; onClose: () => void }) {
  const client = useQueryClient();
  const [name, setName] = useState("");
  const [about, setAbout] = useState(project?.description ?? "");
  const [limits, setLimits] = useState<Limits>(() => Object.fromEntries(LIMITS.map((each) => [each.name, String(project?.limits[each.name] ?? "")])) as Limits);
  const save = useMutation({
    mutationFn: async () => {
      const asked = Object.fromEntries(LIMITS.map((each) => [each.name, limits[each.name] ? Number(limits[each.name]) : null]));
      const body = { description: about.trim(), limits: asked as Project["limits"] };
      if (!project) return got(api.POST("/api/v1/projects", { body: { name: name.trim(), ...body } }));
      // As it was when it was looked at: who changed it meanwhile is not overruled.
      const params = { path: { project: project.name }, header: { "if-match": `"${project.version}"` } };
      return got(api.PUT("/api/v1/projects/{project}", { params, body }));
    },
    onSuccess: async () => {
      await client.invalidateQueries({ queryKey: ["projects"] });
      onClose();
    },
  });
  return (
    <Dialog open onClose={onClose} title={project ? `Project ${project.name}` : "New project"} text="Limits are of all its tokens together, at each gateway; those of single tokens hold besides.">
      <form
        className="stack"
        onSubmit={(event) => {
          event.preventDefault();
          save.mutate();
        }}
      >
        {!project && (
          <Field label="Name">
            {(field) => <input {...field} className="input" required maxLength={63} value={name} onChange={(event) => setName(event.target.value)} />}
          </Field>
        )}
        <Field label="What it is for">
          {(field) => <input {...field} className="input" maxLength={300} value={about} onChange={(event) => setAbout(event.target.value)} />}
        </Field>
        {LIMITS.map((each) => (
          <Field key={each.name} label={each.label}>
            {(field) => (
              <input {...field} className="input" type="number" min="1" placeholder="no limit" value={limits[each.name]} onChange={(event) => setLimits({ ...limits, [each.name]: event.target.value })} />
            )}
          </Field>
        ))}
        <ProblemBox error={save.error} />
        <div className="actions">
          <Button onClick={onClose}>Cancel</Button>
          <Button type="submit" tone="primary" disabled={save.isPending}>Save</Button>
        </div>
      </form>
    </Dialog>
  );
}
