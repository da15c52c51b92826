import { ToggleGroup } from "radix-ui";

type SegmentsProps<V extends string> = { label: string; value: V; onChange: (value: V) => void; options: readonly { value: V; label: string }[] };

/** One of a few. */
export function Segments<V extends string>({ label, value, onChange, options }: SegmentsProps<V>) {
  return (
    <ToggleGroup.Root type="single" className="segments" aria-label={label} value={value} onValueChange={(next) => next && onChange(next as V)}>
      {options.map((option) => (
        <ToggleGroup.Item key={option.value} value={option.value} className="segment">
          {option.label}
        </ToggleGroup.Item>
      ))}
    </ToggleGroup.Root>
  );
}
