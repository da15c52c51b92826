import { useQuery } from "@tanstack/react-query";
import { useAddress } from "@/address";
import { models, starter } from "@/api/specs";
import { Card } from "@/components/Card";
import { Loaded } from "@/components/feedback";
import { Field } from "@/components/Field";
import { Editor } from "./Editor";

const CLOUDS = [
  { value: "aws", label: "AWS" },
  { value: "gcp", label: "Google Cloud" },
  { value: "runpod", label: "RunPod" },
  { value: "local", label: "This machine" },
];
const FIRST_MODEL = "gpt-oss-20b";
const LOCAL_MODEL = "smollm2-135m-instruct";

/** A new fleet begins with a few choices, which make a spec that can be changed as text. The address says them. */
export function Beginning() {
  const [said, say] = useAddress();
  const catalogue = useQuery(models()).data ?? [];
  const cloud = CLOUDS.find(({ value }) => value === said.get("cloud"))?.value ?? "aws";
  const model = said.get("model") ?? (cloud === "local" ? LOCAL_MODEL : FIRST_MODEL);
  const rate = Number(said.get("rate")) > 0 ? Number(said.get("rate")) : cloud === "local" ? 0.03 : 1;
  const name = said.get("name") || "first";
  const names = [...new Set([...catalogue.map((each) => each.name), model])].sort();
  const text = useQuery(starter({ name, model, cloud, requests_per_s: rate }));
  return (
    <>
      <Card title="Begin with">
        <div className="beginning">
          <Field label="Name of the fleet">
            {(field) => <input {...field} className="input" maxLength={63} value={name} onChange={(event) => say({ name: event.target.value.replace(/[^A-Za-z0-9._-]/g, "") })} />}
          </Field>
          <Field label="Model">
            {(field) => (
              <select {...field} className="select" value={model} onChange={(event) => say({ model: event.target.value })}>
                {names.map((each) => <option key={each}>{each}</option>)}
              </select>
            )}
          </Field>
          <Field label="Where">
            {(field) => (
              <select {...field} className="select" value={cloud} onChange={(event) => say({ cloud: event.target.value, model: "", rate: "" })}>
                {CLOUDS.map((each) => <option key={each.value} value={each.value}>{each.label}</option>)}
              </select>
            )}
          </Field>
          <Field label="Requests a second">
            {(field) => <input {...field} className="input" type="number" min="0.001" step="any" value={rate} onChange={(event) => say({ rate: event.target.value })} />}
          </Field>
        </div>
      </Card>
      <Loaded query={text} height={480}>
        {(begun) => <Editor key={begun.source} begin={begun.source} />}
      </Loaded>
    </>
  );
}
