import { type ReactNode, useId } from "react";

type FieldProps = { label: ReactNode; wrong?: string; children: (field: { id: string; "aria-invalid"?: true; "aria-describedby"?: string }) => ReactNode };

/** A control with its label and what is wrong with it. */
export function Field({ label, wrong, children }: FieldProps) {
  const id = useId();
  return (
    <div className="field">
      <label htmlFor={id}>{label}</label>
      {children(wrong ? { id, "aria-invalid": true, "aria-describedby": `${id}-wrong` } : { id })}
      {wrong && (
        <span className="wrong" id={`${id}-wrong`}>
          {wrong}
        </span>
      )}
    </div>
  );
}

type SelectProps = { label: string; value: string; onChange: (value: string) => void; options: readonly (string | { value: string; label: string })[]; any?: string };

/** `any`: what no choice is called. The label is for those who do not see that it is a filter. */
export function Select({ label, value, onChange, options, any }: SelectProps) {
  return (
    <select className="select" aria-label={label} value={value} onChange={(event) => onChange(event.target.value)}>
      {any !== undefined && <option value="">{any}</option>}
      {options.map((option) => {
        const { value: own, label: text } = typeof option === "string" ? { value: option, label: option } : option;
        return (
          <option key={own} value={own}>
            {text.length > 60 ? `${text.slice(0, 59)}…` : text}
          </option>
        );
      })}
    </select>
  );
}
