#include "libsim/page/page_summary.hpp"

#include <algorithm>
#include <array>
#include <map>

#include "libsim/page/page_facts.hpp"
#include "libsim/page/page_text.hpp"
#include "libsim/page/trace_origin.hpp"
#include "libsim/report/key_changes.hpp"
#include "libsim/report/run_verdict.hpp"
#include "libsim/report/text_table.hpp"

namespace stagecraft {

namespace {

std::string trace_name(std::size_t index) {
  return std::string(1, static_cast<char>('A' + index % 26));
}

/// The facts of each trace; what is on devices is among them if it is known of any.
std::vector<std::vector<PageFact>> facts_of_all(std::vector<PageTrace> const& traces) {
  bool const shows_device = std::ranges::any_of(
      traces, [](PageTrace const& trace) { return trace.predicted.has_value(); });
  std::vector<std::vector<PageFact>> facts;
  facts.reserve(traces.size());
  for (PageTrace const& trace : traces) {
    facts.push_back(facts_of(trace));
    if (shows_device) facts.back().push_back(device_fact(trace));
  }
  return facts;
}

/// A row per key in which the runs of traces differ from the first one's, with each trace's value.
std::string differing_keys_html(std::vector<PageTrace> const& traces) {
  constexpr std::size_t most = 12;
  std::vector<std::string> keys;
  std::vector<std::map<std::string, std::string>> values(traces.size());
  for (std::size_t i = 1; i < traces.size(); ++i) {
    if (!traces.front().config || !traces[i].config) return "";
    for (KeyChange const& change : changes_between(*traces.front().config, *traces[i].config)) {
      if (!values.front().contains(change.key)) keys.push_back(change.key);
      values.front()[change.key] = short_text(change.before);
      values[i][change.key] = short_text(change.after);
    }
  }
  std::string html;
  for (std::size_t k = 0; k < std::min(most, keys.size()); ++k) {
    html += "<tr><th scope=\"row\"><code>" + html_text(keys[k]) + "</code></th>";
    for (std::map<std::string, std::string> const& of_trace : values) {
      auto const found = of_trace.find(keys[k]);
      std::string const& text = found == of_trace.end() ? values.front()[keys[k]] : found->second;
      html += "<td><code>" + html_text(text) + "</code></td>";
    }
    html += "</tr>\n";
  }
  if (keys.size() > most) {
    html += "<tr><th scope=\"row\">and " + std::to_string(keys.size() - most) +
            " more keys</th><td colspan=\"" + std::to_string(traces.size()) +
            "\">see where these numbers come from, below</td></tr>\n";
  }
  return html;
}

std::string facts_table_html(std::vector<PageTrace> const& traces) {
  std::vector<std::vector<PageFact>> const facts = facts_of_all(traces);
  std::string html = "<table class=\"facts\">\n<thead><tr><td></td>";
  for (std::size_t i = 0; i < traces.size(); ++i) {
    html += "<th scope=\"col\"><b>" + trace_name(i) + "</b> " + html_text(traces[i].file) +
            "<small>" + html_text(origin_of(traces[i].meta, traces[i].config)) + "</small></th>";
  }
  html += "</tr></thead>\n<tbody>\n";
  for (std::size_t row = 0; row < facts.front().size(); ++row) {
    html += "<tr><th scope=\"row\">" + html_text(facts.front()[row].heading) + "</th>";
    for (std::vector<PageFact> const& column : facts) {
      html += column[row].is_alarming ? "<td class=\"alarming\">" : "<td>";
      html += "<span class=\"value\">" + html_text(column[row].value) + "</span><p>" +
              html_text(column[row].sentence) + "</p></td>";
    }
    html += "</tr>\n";
  }
  return html + differing_keys_html(traces) + "</tbody></table>\n";
}

/// The units of a table, and the whole of which its bars are parts.
struct TableScale {
  TimeUnit time;
  ByteUnit bytes;
  std::int64_t whole = 0;  ///< bytes
  bool is_capacity = false;
};

/// Bars are parts of the capacity, unless that would make them too short to see.
TableScale scale_of(PageTrace const& trace) {
  std::int64_t const peak = fullest(trace).at_peak.sum();
  bool const is_near = trace.capacity && *trace.capacity / far_above <= peak;
  return {.time = unit_for(SimTime{trace.iteration}),
          .bytes = unit_for(peak),
          .whole = is_near ? std::max(peak, *trace.capacity) : peak,
          .is_capacity = is_near};
}

/// A bar with the memory of a rank by category.
std::string bar_html(RankFigures const& rank, std::int64_t whole) {
  std::string html = "<div class=\"bar\" aria-hidden=\"true\">";
  for (auto const& [category, name] : EnumNames<Category>::all) {
    double const width =
        whole > 0 ? 100 * static_cast<double>(rank.at_peak[category]) / static_cast<double>(whole)
                  : 0;
    html +=
        "<i class=\"m-" + std::string{name} + "\" style=\"width:" + decimals(width, 2) + "%\"></i>";
  }
  return html + "</div>";
}

std::string cell(std::string const& text) { return "<td>" + text + "</td>"; }

bool has_ranks_of_job(PageTrace const& trace) {
  return std::any_of(trace.figures.begin(), trace.figures.end(),
                     [](RankFigures const& rank) { return rank.rank != rank.stage; });
}

std::string heading_cell(std::string const& text) { return "<th scope=\"col\">" + text + "</th>"; }

/// A column with a time of each rank, in ps.
struct TimeColumn {
  char const* heading;
  std::int64_t (*of)(RankFigures const& rank, std::int64_t iteration);
};

constexpr std::array<TimeColumn, 6> time_columns{
    {{"computing", [](RankFigures const& rank, std::int64_t) { return rank.times.computing; }},
     {"recompute", [](RankFigures const& rank, std::int64_t) { return rank.recompute; }},
     {"host wait", [](RankFigures const& rank, std::int64_t) { return rank.times.host_wait; }},
     {"transfer", [](RankFigures const& rank, std::int64_t) { return rank.times.transfer; }},
     {"data parallel",
      [](RankFigures const& rank, std::int64_t) { return rank.times.data_parallel; }},
     {"bubble", [](RankFigures const& rank, std::int64_t iteration) {
        return rank.times.bubble(iteration);
      }}}};

std::string table_head_html(PageTrace const& trace, TableScale const& scale) {
  std::string html = "<thead><tr>" + heading_cell("stage");
  if (has_ranks_of_job(trace)) html += heading_cell("rank");
  for (TimeColumn const& column : time_columns) html += heading_cell(column.heading);
  for (CategoryRow const& row : categories) {
    std::string const name{row.name};
    html +=
        "<th scope=\"col\" class=\"part\"><i class=\"swatch m-" + name + "\"></i>" + name + "</th>";
  }
  html += heading_cell("peak") + heading_cell("peak at");
  if (trace.predicted) html += heading_cell("reserved") + heading_cell("device") + heading_cell("");
  return html + "<th scope=\"col\" class=\"wide\">" +
         (scale.is_capacity ? "of capacity" : "of the fullest") + "</th></tr></thead>\n";
}

std::string table_row_html(PageTrace const& trace,
                           RankFigures const& rank,
                           TableScale const& scale) {
  auto const time = [&](std::int64_t ps) { return cell(in_unit(scale.time, SimTime{ps})); };
  auto const size = [&](std::int64_t bytes) { return cell(in_unit(scale.bytes, bytes)); };
  std::string html = "<tr><th scope=\"row\">" + std::to_string(rank.stage) + "</th>";
  if (has_ranks_of_job(trace)) html += cell(std::to_string(rank.rank));
  for (TimeColumn const& column : time_columns) html += time(column.of(rank, trace.iteration));
  for (CategoryRow const& row : categories) html += size(rank.at_peak[row.category]);
  html += size(rank.at_peak.sum()) + time(rank.peak_time);
  if (trace.predicted) {
    StageResult const& stage = trace.predicted->stages[static_cast<std::size_t>(rank.stage)];
    html += size(stage.reservation->reserved) + size(stage.device) +
            cell(std::string{text_of(stage.verdict)});
  }
  return html + "<td class=\"wide\">" + bar_html(rank, scale.whole) + "</td></tr>\n";
}

}  // namespace

std::string cards_html(std::vector<PageFact> const& facts) {
  std::string html = "<dl class=\"cards\">\n";
  for (PageFact const& fact : facts) {
    html += fact.is_alarming ? "<div class=\"card alarming\">" : "<div class=\"card\">";
    html += "<dt>" + html_text(fact.heading) + "</dt><dd class=\"value\">" + html_text(fact.value) +
            "</dd><dd>" + html_text(fact.sentence) + "</dd></div>\n";
  }
  return html + "</dl>\n";
}

std::string summary_html(std::vector<PageTrace> const& traces) {
  return traces.size() == 1 ? cards_html(facts_of_all(traces).front()) : facts_table_html(traces);
}

std::string stage_table_html(PageTrace const& trace, std::string const& name) {
  TableScale const scale = scale_of(trace);
  std::string const caption = name + ": each stage's time in " + std::string{scale.time.name} +
                              ", and its memory at the peak in " + std::string{scale.bytes.name};
  std::string html = "<table class=\"stages\">\n<caption>" + html_text(caption) + "</caption>\n" +
                     table_head_html(trace, scale) + "<tbody>\n";
  for (RankFigures const& rank : trace.figures) {
    if (std::binary_search(trace.shown.begin(), trace.shown.end(), rank.rank)) {
      html += table_row_html(trace, rank, scale);
    }
  }
  return html + "</tbody></table>\n";
}

}  // namespace stagecraft
