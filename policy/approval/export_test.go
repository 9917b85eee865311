package approval

// CrashAt makes the desk call die when a change reaches the named point.
func (d *Desk) CrashAt(die func(point string)) { d.crash = die }
