#pragma once

#include <nanobind/nanobind.h>

#include <optional>
#include <string>
#include <vector>

namespace stagecraft::python {

/// A sweep: its columns as [(name, unit, array of numbers or list of texts)], the document of
/// `sweep --json` as text, and the lines of its warnings. `text`: of the sweep file, if it is none.
/// `words`: the command line of `sweep`.
nanobind::dict sweep_frame(std::string const& path,
                           std::optional<std::string> const& text,
                           std::vector<std::string> const& words,
                           nanobind::object const& progress);

/// A trace file: its attributes, its names, and of each rank the columns of ops and memory.
/// The interpreter's lock is held, so that one thread at a time reads.
nanobind::dict trace_frames(std::string const& path);

}  // namespace stagecraft::python
