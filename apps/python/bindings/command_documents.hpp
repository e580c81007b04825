#pragma once

#include <nanobind/nanobind.h>

#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "apps/python/bindings/run.hpp"

namespace stagecraft::python {

// Commands whose arguments are words of a command line, without the command's name. Each gives the
// document that the command prints with --json, as text.

/// \throws DoesNotFit  if no plan fits.
std::string plan_document(std::vector<std::string> const& words, nanobind::object const& progress);
std::string schedule_document(std::vector<std::string> const& words);
std::string validate_document(std::vector<std::string> const& words,
                              nanobind::object const& progress);
/// And what the command notes on standard error.
/// \throws std::runtime_error  if no row can be used.
std::pair<std::string, std::string> fit_document(std::vector<std::string> const& words,
                                                 nanobind::object const& progress);

/// An imported file: its text, its keys as JSON (null of a run file), and the notes.
using Imported = std::tuple<std::string, std::string, std::vector<std::string>>;
Imported imported_huggingface(std::vector<std::string> const& words);
Imported imported_megatron(std::vector<std::string> const& words);

/// Writes the simulated iteration of a run as a trace file, with a row per op or per chunk.
void write_trace(Run const& run, std::string const& path, bool by_op);

/// The page of `report`, written to the file that the words name.
void write_report(std::vector<std::string> const& words);

}  // namespace stagecraft::python
