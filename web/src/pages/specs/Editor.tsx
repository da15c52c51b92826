import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { useRef, useState } from "react";
import { useNavigate } from "react-router";
import { api, got, type Schemas, whole } from "@/api/client";
import { projects } from "@/api/ledger";
import { ApiProblem } from "@/api/problem";
import { check, type Mode, type Source, source } from "@/api/specs";
import { ActButton, Button } from "@/components/Button";
import { Card } from "@/components/Card";
import { Dialog } from "@/components/Dialog";
import { ProblemBox, Warning } from "@/components/feedback";
import { Field } from "@/components/Field";
import { servingOf } from "./EndDialog";
import { ModeChoice } from "./ModeDialog";
import { Preview } from "./Preview";
import { SourceText, type SourceHandle } from "./SourceText";
import { useSettled } from "./useSettled";

type EditorProps = {
  begin: string;
  /** The fleet as it is on record; without one it is a new one. */
  stored?: Source;
  fleet?: Schemas["Fleet"];
};

/** A spec as text, what is wrong with it by line, and what it would cost while it is written. */
export function Editor({ begin, stored, fleet }: EditorProps) {
  const [text, setText] = useState(begin);
  const [saves, setSaves] = useState(false);
  const settled = useSettled(text, 350);
  const checked = useQuery(check(settled));
  const isChecked = settled === text && checked.data !== undefined;
  const found = isChecked ? checked.data : undefined;
  const area = useRef<SourceHandle>(null);
  const problems = found?.problems ?? [];
  const files = stored?.files ?? [];
  const other = stored && fleet && found?.name && found.name !== fleet.name;
  const refusal = files.length
    ? "It names files of the machine where it was applied: change it there with medley apply."
    : !found
      ? "It is being checked."
      : problems.length
        ? "Mend what is marked first."
        : other
          ? `A fleet keeps its name: ${fleet.name}.`
          : stored && text === stored.source
            ? "Nothing is changed."
            : "";
  return (
    <>
      {files.length > 0 && (
        <Warning>
          It names files of the machine where it was applied ({files.join(", ")}), so it can only be changed there: <code>medley apply -f</code>.
        </Warning>
      )}
      {fleet?.trouble && <Warning>This fleet {fleet.trouble}.</Warning>}
      <div className="grid wide-narrow">
        <Card
          title="Spec"
          side={
            <ActButton operation={stored ? "change_fleet" : "create_fleet"} tone="primary" small refusal={refusal} onClick={() => setSaves(true)}>
              {stored ? "Save…" : "Create…"}
            </ActButton>
          }
        >
          <SourceText ref={area} text={text} onChange={setText} wrong={problems.map((each) => each.line)} />
          <div role="status" className="problems">
            {checked.error && <ProblemBox error={checked.error} retry={() => void checked.refetch()} />}
            {problems.length > 0 && (
              <ul aria-label="What is wrong">
                {problems.map((each) => (
                  <li key={`${each.line} ${each.message}`}>
                    <button type="button" className="link nowrap" onClick={() => area.current?.goTo(each.line)}>
                      {each.line ? `line ${each.line}` : "file"}
                    </button>
                    <span className="break">{each.message}</span>
                  </li>
                ))}
              </ul>
            )}
            {found && !problems.length && <span className="good">It can be planned.</span>}
          </div>
        </Card>
        <Preview checked={found} fleet={fleet} />
      </div>
      {saves && <SaveDialog text={text} name={found?.name ?? ""} stored={stored} fleet={fleet} onClose={() => setSaves(false)} />}
    </>
  );
}

type SaveProps = { text: string; name: string; stored?: Source; fleet?: Schemas["Fleet"]; onClose: () => void };

function SaveDialog({ text, name, stored, fleet, onClose }: SaveProps) {
  const client = useQueryClient();
  const go = useNavigate();
  const known = useQuery(projects()).data?.items ?? [];
  const [mode, setMode] = useState<Mode>(fleet?.mode ?? "observe");
  const [project, setProject] = useState(fleet?.project ?? "default");
  const [serving, setServing] = useState<string[]>([]);
  const save = useMutation({
    mutationFn: async () => {
      const body = { source: text, mode, project, preflight: true };
      if (!stored) return got(api.POST("/api/v1/fleets", { body }));
      const params = { path: { fleet: name }, header: { "if-match": stored.etag }, query: { confirm: serving } };
      return (await whole(api.PUT("/api/v1/fleets/{fleet}", { params, body }))).data;
    },
    onError: (error) => {
      if (error instanceof ApiProblem && error.kind === "serves-traffic") setServing(servingOf(error));
    },
    onSuccess: async () => {
      await client.invalidateQueries({ predicate: (query) => ["fleets", "status", "plans"].includes(String(query.queryKey[0])) });
      await client.fetchQuery(source(name));
      onClose();
      go(`/specs/${name}`, { replace: true });
    },
  });
  return (
    <Dialog open onClose={onClose} title={stored ? `Save ${name}?` : `Create ${name}?`} text="The next solve is made from this spec. In mode observe nothing is rented.">
      <form
        className="stack"
        onSubmit={(event) => {
          event.preventDefault();
          save.mutate();
        }}
      >
        <ModeChoice mode={mode} onChange={setMode} />
        <Field label="Project that pays for it">
          {(field) => (
            <select {...field} className="select" value={project} onChange={(event) => setProject(event.target.value)}>
              {[...new Set(["default", project, ...known.map((each) => each.name)])].map((each) => <option key={each}>{each}</option>)}
            </select>
          )}
        </Field>
        {serving.length > 0 && <Warning>It would no longer serve {serving.join(", ")}: their instances finish what they have and are given back.</Warning>}
        <ProblemBox error={save.error} />
        <div className="actions">
          <Button onClick={onClose}>Cancel</Button>
          <Button type="submit" tone={serving.length ? "danger" : "primary"} disabled={save.isPending}>
            {save.isPending ? "Working…" : serving.length ? "Drain them and save" : stored ? "Save" : "Create"}
          </Button>
        </div>
      </form>
    </Dialog>
  );
}
