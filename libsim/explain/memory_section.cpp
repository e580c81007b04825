#include <algorithm>
#include <utility>

#include "libsim/explain/explanation_sections.hpp"
#include "libsim/report/text_table.hpp"
#include "libsim/report/wrapped_text.hpp"

namespace stagecraft {
namespace {

constexpr std::size_t most_tensors = 14;  ///< rows, unless all are asked for
constexpr int wide = 145;                 ///< columns from which tables say who made a tensor
constexpr int widest = 190;               ///< and who needs it
constexpr int narrow = 90;                ///< columns below which they say less

/// The number of layers and microbatches. A backward in progress has already released some buffers.
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
             (says_more && !group.needed_by.empty() ? ": " + readable_name(group.needed_by) : "");
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
  if (event.op == "start") return "It holds this from the start, and never more.";
  std::string text = "It is fullest " + time_text(event.time) + " into the iteration, at '" +
                     readable_name(event.op) + "' (" + readable_name(event.phase) + ")";
  if (event.layer >= 0) text += " of layer " + std::to_string(event.layer);
  text += ", microbatch " + std::to_string(event.microbatch.value()) + ", chunk " +
          std::to_string(event.chunk) + ". What it holds then:";
  return text;
}

/// The largest group that a run's choices move.
std::string largest_text(PeakExplanation const& peak) {
  auto const largest =
      std::find_if(peak.tensors.begin(), peak.tensors.end(),
                   [](TensorGroup const& group) { return group.stay != Stay::resident; });
  if (largest == peak.tensors.end()) return "";
  std::string text = "Largest of what comes and goes: " + readable_name(largest->tensor) + ", " +
                     extent(*largest) + ", " + size_text(largest->bytes) + ", made by " +
                     readable_name(joined(largest->made_by, " or "));
  if (largest->stay == Stay::kept) {
    text += ", kept until the backward of the same layer and microbatch has used it";
  }
  return text + ".";
}

}  // namespace

std::string memory_section(Explanation const& explanation, ExplanationStyle const& style) {
  PeakExplanation const& peak = explanation.peak;
  std::int64_t const total = explanation.figures.peak;
  bool const says_more = style.width >= wide;
  bool const says_less = style.width < narrow;
  ByteUnit const unit = unit_for(total);
  std::vector<TextTable::Column> columns{{std::string{unit.name}}};
  if (!says_less) columns.push_back({"%"});
  columns.push_back({"tensor", Align::left});
  columns.push_back({"of", Align::left});
  columns.push_back({"held", Align::left});
  if (says_more) columns.push_back({"made by", Align::left});
  TextTable table{columns};
  auto const add = [&](std::int64_t bytes, std::vector<std::string> words) {
    std::vector<std::string> cells{in_unit(unit, bytes)};
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
    std::string const tensor = readable_name(group.tensor);
    bool const is_state = group.category == Category::optimizer;
    add(group.bytes,
        {is_state ? tensor + " state" : tensor, extent(group), reason(group, style.width >= widest),
         readable_name(joined(group.made_by, ", "))});
  }
  if (shown < peak.tensors.size()) {
    std::int64_t rest = 0;
    for (std::size_t i = shown; i < peak.tensors.size(); ++i) rest += peak.tensors[i].bytes;
    add(rest, {counted(static_cast<std::int64_t>(peak.tensors.size() - shown), "smaller one",
                       "smaller ones (--all)")});
  }
  table.add_rule();
  add(total, {"in all"});
  std::string text = "WHY STAGE " + std::to_string(peak.stage) + " HOLDS " + size_text(total) +
                     "\n" + wrapped(event_text(peak), style.width) + table.text();
  if (counts_passes) {
    text +=
        wrapped("A pass is one microbatch on its way through one chunk of layers.", style.width);
  }
  return text + wrapped(largest_text(peak), style.width);
}

}  // namespace stagecraft
