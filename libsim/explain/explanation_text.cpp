#include "libsim/explain/explanation_text.hpp"

#include <algorithm>
#include <array>
#include <sstream>
#include <utility>

#include "libsim/report/simulation_tables.hpp"
#include "libsim/report/text_table.hpp"

namespace stagecraft {
namespace {

constexpr std::size_t most_tensors = 14;  ///< rows, unless all are asked for
constexpr int wide = 145;                 ///< columns from which tables say who made a tensor
constexpr int widest = 190;               ///< and who needs it
constexpr int narrow = 90;                ///< columns below which they say less

/// Words in lines of at most `width` columns, those behind the first indented.
std::string wrapped(std::string const& text, int width, std::size_t indent = 0) {
  std::istringstream words{text};
  std::string result;
  std::size_t column = 0;
  for (std::string word; words >> word; column += word.size()) {
    if (column > 0 && column + 1 + word.size() > static_cast<std::size_t>(width)) {
      result += '\n' + std::string(indent, ' ');
      column = indent;
    } else if (column > 0) {
      result += ' ';
      ++column;
    }
    result += word;
  }
  return result + '\n';
}

std::string wrapped_lines(std::string const& text, int width) {
  std::istringstream lines{text};
  std::string result;
  for (std::string line; std::getline(lines, line);) result += wrapped(line, width);
  return result;
}

/// A program's name for a tensor or an op, for reading.
std::string spoken(std::string name) {
  std::replace_if(
      name.begin(), name.end(), [](char c) { return c == '.' || c == '_'; }, ' ');
  return name;
}

std::string counted(std::int64_t count, std::string const& one, std::string const& many) {
  return std::to_string(count) + " " + (count == 1 ? one : many);
}

std::string seconds(SimTime time) { return decimals(to_seconds(time), 3); }

double percent_of(std::int64_t part, std::int64_t whole) {
  return 100 * static_cast<double>(part) / static_cast<double>(whole);
}
double percent_of(SimTime part, SimTime whole) {
  return 100 * to_seconds(part) / to_seconds(whole);
}

std::string joined(std::vector<std::string> const& texts, std::string const& separator) {
  std::string all;
  for (std::string const& text : texts) all += (all.empty() ? "" : separator) + text;
  return all;
}

// ---- memory

/// Of how many layers and microbatches. A backward that is under way has released some already.
std::string extent(TensorGroup const& group) {
  if (group.stay == Stay::resident) return "";
  bool const is_by_pass = group.passes > group.microbatches;
  std::int64_t const times = is_by_pass ? group.passes : group.microbatches;
  std::int64_t const each = (group.buffers + times - 1) / times;
  std::string text =
      is_by_pass ? counted(times, "pass", "passes") : counted(times, "microbatch", "microbatches");
  if (group.layers > 0) {
    text = counted(each, "layer", "layers") + " x " + text;
  } else if (each > 1) {
    text = std::to_string(each) + " x " + text;
  }
  std::int64_t const missing = each * times - group.buffers;
  return missing > 0 ? text + " less " + std::to_string(missing) : text;
}

std::string reason(TensorGroup const& group, bool says_more) {
  switch (group.stay) {
    case Stay::resident:
      return "always";
    case Stay::kept:
      return "for backward" +
             (says_more && !group.needed_by.empty() ? ": " + spoken(group.needed_by) : "");
    case Stay::rebuilt:
      return "recomputed";
    case Stay::temporary:
      return "in use";
    case Stay::message:
      return "message";
  }
  return "";
}

std::string event_text(PeakExplanation const& peak) {
  PeakEvent const& event = peak.event;
  if (event.op == "start") return "That is so from the start: nothing ever adds to it.";
  std::string text = "It is fullest " + seconds(event.time) + " s into the iteration, at '" +
                     spoken(event.op) + "' (" + spoken(event.phase) + ")";
  if (event.layer >= 0) text += " of layer " + std::to_string(event.layer);
  text += ", microbatch " + std::to_string(event.microbatch) + ", chunk " +
          std::to_string(event.chunk) + ". What it holds then:";
  return text;
}

/// The largest group that a run's choices move.
std::string largest_text(PeakExplanation const& peak) {
  auto const largest =
      std::find_if(peak.tensors.begin(), peak.tensors.end(),
                   [](TensorGroup const& group) { return group.stay != Stay::resident; });
  if (largest == peak.tensors.end()) return "";
  std::string text = "Largest of what comes and goes: " + spoken(largest->tensor) + ", " +
                     extent(*largest) + ", " + gibibytes(largest->bytes) + " GiB, made by " +
                     spoken(joined(largest->made_by, " or "));
  if (largest->stay == Stay::kept) {
    text += ", kept until the backward of the same layer and microbatch has used it";
  }
  return text + ".";
}

std::string memory_text(Explanation const& explanation, ExplanationStyle const& style) {
  PeakExplanation const& peak = explanation.peak;
  std::int64_t const total = explanation.figures.peak;
  bool const says_more = style.width >= wide;
  bool const says_less = style.width < narrow;
  std::vector<TextTable::Column> columns{{"GiB"}};
  if (!says_less) columns.push_back({"%"});
  columns.push_back({"tensor", Align::left});
  columns.push_back({"of", Align::left});
  columns.push_back({"held", Align::left});
  if (says_more) columns.push_back({"made by", Align::left});
  TextTable table{columns};
  auto const add = [&](std::int64_t bytes, std::vector<std::string> words) {
    std::vector<std::string> cells{gibibytes(bytes)};
    if (!says_less) cells.push_back(decimals(percent_of(bytes, total), 1));
    cells.insert(cells.end(), words.begin(), words.end());
    cells.resize(columns.size());
    table.add_row(std::move(cells));
  };
  std::size_t const shown =
      style.shows_all ? peak.tensors.size() : std::min(most_tensors, peak.tensors.size());
  bool counts_passes = false;
  for (std::size_t i = 0; i < shown; ++i) {
    TensorGroup const& group = peak.tensors[i];
    counts_passes = counts_passes || extent(group).find("pass") != std::string::npos;
    std::string const tensor = spoken(group.tensor);
    bool const is_state = group.category == Category::optimizer;
    add(group.bytes, {is_state ? tensor + " state" : tensor, extent(group),
                      reason(group, style.width >= widest), spoken(joined(group.made_by, ", "))});
  }
  if (shown < peak.tensors.size()) {
    std::int64_t rest = 0;
    for (std::size_t i = shown; i < peak.tensors.size(); ++i) rest += peak.tensors[i].bytes;
    add(rest, {counted(static_cast<std::int64_t>(peak.tensors.size() - shown), "smaller one",
                       "smaller ones (--all)")});
  }
  table.add_rule();
  add(total, {"in all"});
  std::string text = "WHY STAGE " + std::to_string(peak.stage) + " HOLDS " + gibibytes(total) +
                     " GiB\n" + wrapped(event_text(peak), style.width) + table.text();
  if (counts_passes) {
    text +=
        wrapped("A pass is one microbatch on its way through one chunk of layers.", style.width);
  }
  return text + wrapped(largest_text(peak), style.width);
}

// ---- time

std::string_view description_of(TimeKind kind) {
  constexpr std::array<std::string_view, time_kind_count> texts{
      "layers forward",
      "layers backward",
      "recomputing layers",
      "tensor-parallel messages, waited for",
      "embedding, head and loss",
      "messages between stages",
      "waiting for other stages (bubble)",
      "reducing gradients between ranks",
      "optimizer step"};
  return texts[static_cast<std::size_t>(kind)];
}

std::string course_text(Explanation const& explanation) {
  CriticalPath const& path = explanation.path;
  auto const main = static_cast<std::size_t>(
      std::max_element(path.by_rank.begin(), path.by_rank.end()) - path.by_rank.begin());
  std::string text = "The critical path is on stage " + std::to_string(main) + " for " +
                     seconds(path.by_rank[main]) + " s";
  SimTime others{0};
  for (SimTime const time : path.by_rank) others += time;
  others -= path.by_rank[main];
  if (others > SimTime{0}) text += ", on other stages for " + seconds(others) + " s";
  if (path.messages > 0) {
    text += ", with " + counted(path.messages, "message", "messages") + " between stages";
  }
  return text + ".";
}

std::string time_text(Explanation const& explanation, ExplanationStyle const& style) {
  SimTime const iteration = explanation.simulation.iteration;
  std::size_t const busiest = busiest_stage(explanation.simulation);
  TextTable table{{{"", Align::left},
                   {"critical path s"},
                   {"%"},
                   {"stage " + std::to_string(busiest) + " s"},
                   {"%"}}};
  auto const add = [&](std::string name, SimTime on_path, SimTime on_stage) {
    table.add_row({std::move(name), seconds(on_path), decimals(percent_of(on_path, iteration), 1),
                   seconds(on_stage), decimals(percent_of(on_stage, iteration), 1)});
  };
  for (int i = 0; i < time_kind_count; ++i) {
    auto const kind = static_cast<TimeKind>(i);
    SimTime const on_path = explanation.path.kinds[kind];
    SimTime const on_stage = explanation.busiest[kind];
    if (on_path == SimTime{0} && on_stage == SimTime{0}) continue;
    add(std::string{description_of(kind)}, on_path, on_stage);
  }
  table.add_rule();
  add("iteration", explanation.path.kinds.sum(), explanation.busiest.sum());
  std::string text = "WHAT THE " + seconds(iteration) + " s OF AN ITERATION CONSIST OF\n";
  text += wrapped(
      "The critical path is the chain of computations and messages, each waiting for "
      "the one before, that leads from the start of an iteration to its end: only what "
      "shortens it shortens the iteration. Beside it, the busiest stage.",
      style.width);
  text += table.text() + wrapped(course_text(explanation), style.width);
  if (explanation.busiest[TimeKind::bubble] > SimTime{0}) {
    text += wrapped("While stage " + std::to_string(busiest) +
                        " waits, the path is with other stages: on it nobody waits.",
                    style.width);
  }
  return text;
}

// ---- changes

/// With a sign, unless it rounds to nothing.
std::string change_text(double value, int count) {
  std::string const nothing = decimals(0, count);
  std::string const text = signed_decimals(value, count);
  return text.substr(1) == nothing ? nothing : text;
}

std::string time_change(RunFigures const& run, RunFigures const& changed) {
  return change_text(percent_of(changed.iteration - run.iteration, run.iteration), 1);
}

std::string memory_change(RunFigures const& run, RunFigures const& changed) {
  return change_text(static_cast<double>(changed.peak - run.peak) / (1 << 30), 2);
}

bool has_effect(RunFigures const& run, ChangeEffect const& effect) {
  return effect.figures && !effect.is_same_run &&
         (effect.figures->peak != run.peak || effect.figures->iteration != run.iteration);
}

/// What a change does, in half a sentence.
std::string effect_text(RunFigures const& run, ChangeEffect const& effect) {
  RunFigures const& changed = *effect.figures;
  return effect.change.what + ": " + time_change(run, changed) + " % time (" +
         seconds(changed.iteration) + " s), " + memory_change(run, changed) + " GiB (" +
         (changed.fits() ? gibibytes(changed.room) + " GiB free"
                         : gibibytes(-changed.room) + " GiB too much") +
         ")";
}

std::string best_text(Explanation const& explanation, ExplanationStyle const& style) {
  RunFigures const& run = explanation.figures;
  BestChanges const& best = explanation.best;
  auto const line = [&](std::string const& title, std::optional<std::size_t> index,
                        std::string const& otherwise) {
    return wrapped(
        title + (index ? effect_text(run, explanation.effects[*index]) : otherwise) + ".",
        style.width, 2);
  };
  return line(
             run.fits() ? "Helps time most: " : "Makes it fit and is fastest then: ", best.fastest,
             run.fits() ? "no single change is faster and fits" : "no single change makes it fit") +
         line("Helps memory most: ", best.smallest, "no single change saves any") +
         line("Helps memory most at no more than 1 % of the time: ", best.cheapest,
              "no single change saves 1 %");
}

std::string refusals_text(Explanation const& explanation, ExplanationStyle const& style) {
  std::string text;
  for (ChangeEffect const& effect : explanation.effects) {
    if (effect.figures) continue;
    text += wrapped("- " + effect.change.what + ": " + effect.refusal, style.width, 2);
  }
  return text.empty() ? "" : "not legal here:\n" + text;
}

std::string changes_text(Explanation const& explanation, ExplanationStyle const& style) {
  RunFigures const& run = explanation.figures;
  std::vector<ChangeEffect const*> shown;
  std::vector<std::string> without_effect;
  std::int64_t refused = 0;
  for (ChangeEffect const& effect : explanation.effects) {
    if (has_effect(run, effect)) {
      shown.push_back(&effect);
    } else if (!effect.figures) {
      ++refused;
    } else if (!effect.is_same_run) {
      without_effect.push_back(effect.change.what);
    }
  }
  std::stable_sort(shown.begin(), shown.end(), [](auto const* a, auto const* b) {
    if (a->figures->fits() != b->figures->fits()) return a->figures->fits();
    return a->figures->iteration < b->figures->iteration;
  });
  TextTable table{{{"", Align::left}, {"s"}, {"time %"}, {"peak GiB"}, {"GiB"}, {"free"}}};
  auto const add = [&](std::string const& what, RunFigures const& figures, bool is_run) {
    table.add_row({what, seconds(figures.iteration), is_run ? "" : time_change(run, figures),
                   gibibytes(figures.peak), is_run ? "" : memory_change(run, figures),
                   gibibytes(figures.room)});
  };
  add("the run as it is", run, true);
  table.add_rule();
  bool is_beyond = false;
  for (ChangeEffect const* effect : shown) {
    if (!effect->figures->fits() && !is_beyond && effect != shown.front()) table.add_rule();
    is_beyond = !effect->figures->fits();
    add(effect->change.what, *effect->figures, false);
  }
  std::string text =
      "WHAT EACH SINGLE CHANGE WOULD DO\n" +
      wrapped(
          "Each is simulated; the number of accelerators stays. What fits comes first, fastest "
          "first; 'free' is what the capacity leaves beside the reserve.",
          style.width) +
      table.text();
  bool const has_window = std::any_of(shown.begin(), shown.end(), [](auto const* effect) {
    return effect->change.what.find("stored window") != std::string::npos;
  });
  if (has_window) {
    text += wrapped(
        "A stored window keeps everything of as many microbatches as fit, and recomputes "
        "for the others.",
        style.width);
  }
  if (!without_effect.empty()) {
    text += wrapped("without effect here: " + joined(without_effect, "; "), style.width, 2);
  }
  if (style.shows_all) {
    text += refusals_text(explanation, style);
  } else if (refused > 0) {
    text += counted(refused, "change is", "changes are") + " not legal here (--all says why)\n";
  }
  return text + '\n' + best_text(explanation, style);
}

std::string room_text(Explanation const& explanation, RunConfig const& run) {
  RunFigures const& figures = explanation.figures;
  return "An iteration takes " + seconds(figures.iteration) + " s. The fullest stage, " +
         std::to_string(figures.fullest_stage) + " of " +
         std::to_string(explanation.simulation.stages.size()) + ", holds " +
         gibibytes(figures.peak) + " GiB of " +
         gibibytes(run.system.accelerator.memory.value.count()) + ": beside " +
         gibibytes(run.training.memory.reserve.count()) + " GiB of reserve " +
         (figures.fits() ? gibibytes(figures.room) + " GiB are free."
                         : gibibytes(-figures.room) + " GiB are missing; it does not fit.");
}

}  // namespace

std::string explanation_text(Explanation const& explanation,
                             RunConfig const& run,
                             ExplanationStyle const& style) {
  std::string text = wrapped_lines(run_title(explanation.plan, run.system), style.width) +
                     wrapped(room_text(explanation, run), style.width) + '\n' +
                     memory_text(explanation, style) + '\n' + time_text(explanation, style) + '\n' +
                     changes_text(explanation, style);
  if (!explanation.pointless.empty()) text += "\nCHOICES THAT DO NOT PAY\n";
  for (std::string const& warning : explanation.pointless) {
    text += wrapped("- " + warning, style.width, 2);
  }
  return text;
}

}  // namespace stagecraft
