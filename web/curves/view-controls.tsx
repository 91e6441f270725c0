// What one turns to look at curves: which numbers, logarithm, smoothing. Remembered on this device, the same for one run and many.

import { useRemembered } from "../place/remembered.ts";
import { type CurveView, type Smoothing, type Subject, smoothings, subjects } from "./view.ts";

const isSubject = (value: unknown): value is Subject => subjects.some((one) => one === value);
const isSmoothing = (value: unknown): value is Smoothing => smoothings.some((one) => one === value);
const isFlag = (value: unknown): value is boolean => typeof value === "boolean";

export interface CurveChoice extends CurveView {
  readonly setSubject: (subject: Subject) => void;
  readonly setLogarithmic: (logarithmic: boolean) => void;
  readonly setSmoothing: (smoothing: Smoothing) => void;
}

export function useCurveChoice(): CurveChoice {
  const [subject, setSubject] = useRemembered<Subject>("curve-subject", "loss", isSubject);
  const [logarithmic, setLogarithmic] = useRemembered<boolean>("curve-logarithmic", false, isFlag);
  const [smoothing, setSmoothing] = useRemembered<Smoothing>("curve-smoothing", "some", isSmoothing);
  return { subject, logarithmic, smoothing, setSubject, setLogarithmic, setSmoothing };
}

export function ViewControls({ choice }: { readonly choice: CurveChoice }) {
  return (
    <div className="view-controls">
      <select
        aria-label="Numbers"
        value={choice.subject}
        onChange={(event) => choice.setSubject(event.target.value as Subject)}
      >
        {subjects.map((one) => (
          <option key={one}>{one}</option>
        ))}
      </select>
      <select
        aria-label="Smoothing"
        value={choice.smoothing}
        onChange={(event) => choice.setSmoothing(event.target.value as Smoothing)}
      >
        {smoothings.map((one) => (
          <option key={one} value={one}>
            {one === "none" ? "not smoothed" : one === "some" ? "smoothed" : "very smooth"}
          </option>
        ))}
      </select>
      <label className="check">
        <input
          type="checkbox"
          checked={choice.logarithmic}
          onChange={(event) => choice.setLogarithmic(event.target.checked)}
        />
        log
      </label>
    </div>
  );
}
