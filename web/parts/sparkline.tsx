// A small line of the last values, with its area; the number beside it says the newest.

interface SparklineProps {
  readonly values: readonly number[];
  readonly label: string;
  readonly text: string;
  /** Fixed top of the scale; the largest value otherwise. */
  readonly max?: number;
}

const width = 120;
const height = 32;

export function Sparkline({ values, label, text, max }: SparklineProps) {
  const top = Math.max(max ?? 0, ...(max === undefined ? values : []), 1e-9);
  const stepWidth = width / Math.max(1, values.length - 1);
  const points = values.map((value, index) => {
    const y = height - 2 - (Math.min(top, value) / top) * (height - 4);
    return `${(index * stepWidth).toFixed(1)} ${y.toFixed(1)}`;
  });
  const line = `M${points.join("L")}`;
  return (
    <div className="sparkline">
      <span className="label">{label}</span>
      <strong>{text}</strong>
      <svg viewBox={`0 0 ${width} ${height}`} preserveAspectRatio="none" aria-hidden="true">
        {values.length > 1 && (
          <>
            <path className="sparkline-area" d={`${line}L${width} ${height}L0 ${height}Z`} />
            <path className="sparkline-line" d={line} />
          </>
        )}
      </svg>
    </div>
  );
}
