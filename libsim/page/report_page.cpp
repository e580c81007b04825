#include "libsim/page/report_page.hpp"

#include <openssl/sha.h>

#include <array>
#include <string_view>

#include "libsim/hardware/provenance.hpp"
#include "libsim/host/program_version.hpp"
#include "libsim/interval/measured_range.hpp"
#include "libsim/page/category_style.hpp"
#include "libsim/page/column_packing.hpp"
#include "libsim/page/page_files.hpp"
#include "libsim/page/page_summary.hpp"
#include "libsim/page/page_text.hpp"
#include "libsim/page/trace_origin.hpp"
#include "libsim/report/run_verdict.hpp"

namespace stagecraft {

namespace {

/// The name of an allowed script in a Content-Security-Policy.
std::string sha256_source(std::string_view script) {
  std::array<unsigned char, SHA256_DIGEST_LENGTH> digest{};
  SHA256(reinterpret_cast<unsigned char const*>(script.data()), script.size(), digest.data());
  return "'sha256-" + base64({reinterpret_cast<char const*>(digest.data()), digest.size()}) + "'";
}

std::string letter(std::vector<PageTrace> const& traces, std::size_t index) {
  return traces.size() == 1 ? "" : std::string(1, static_cast<char>('A' + index % 26)) + " · ";
}

/// One line per trace: file, origin, setting.
std::string subtitle_html(std::vector<PageTrace> const& traces) {
  std::string html;
  for (std::size_t i = 0; i < traces.size(); ++i) {
    PageTrace const& trace = traces[i];
    std::string text = letter(traces, i) + trace.file + " · " + origin_of(trace.meta, trace.config);
    std::string const setting = setting_of(trace.meta, trace.config);
    if (!setting.empty()) text += " · " + setting;
    html += "<p>" + html_text(text) + "</p>\n";
  }
  return html;
}

std::string notes_html(std::vector<PageTrace> const& traces) {
  std::string html;
  for (std::size_t i = 0; i < traces.size(); ++i) {
    PageTrace const& trace = traces[i];
    if (trace.is_reduced) {
      html += "<p class=\"note\">" + html_text(letter(traces, i) + trace.file) +
              " has more ops than a page can show: it is drawn by chunk. Fewer ranks (--ranks) "
              "show their ops.</p>\n";
    }
    if (trace.shown.size() < trace.figures.size()) {
      html += "<p class=\"note\">" + html_text(letter(traces, i) + trace.file) + ": " +
              std::to_string(trace.shown.size()) + " of " + std::to_string(trace.figures.size()) +
              " ranks are drawn; the summary is over all of them.</p>\n";
    }
  }
  return html;
}

/// Notes on what of the predictions no measured run stands behind.
std::string validation_html(std::vector<PageTrace> const& traces) {
  std::string html;
  for (std::size_t i = 0; i < traces.size(); ++i) {
    PageTrace const& trace = traces[i];
    if (!trace.config || is_executed(trace.meta)) continue;
    System const& system = trace.config->system;
    std::string const name = letter(traces, i) + trace.file;
    auto const add = [&](std::string const& text) {
      html += "<p class=\"note\">" + html_text(name + ": " + text) + ".</p>\n";
    };
    if (auto const warning = validation_warning(trace.config->training, system)) add(*warning);
    std::string const settings =
        unmeasured_text(unmeasured_settings(trace.config->training, system));
    if (!settings.empty()) add(settings.substr(0, settings.size() - 1));
  }
  return html;
}

/// Notes on what the charts of memory cannot show.
std::string memory_notes_html(std::vector<PageTrace> const& traces) {
  std::string html;
  for (std::size_t i = 0; i < traces.size(); ++i) {
    if (!traces[i].has_whole_chunks) continue;
    html += "<p class=\"note\">" + html_text(letter(traces, i) + traces[i].file) +
            " is recorded at chunk detail: what is held is known at the end of each forward and "
            "backward, and at the peak. In between, the chart continues with what was held before; "
            "simulate --detail op records every change.</p>\n";
  }
  return html;
}

std::string origin_html(PageTrace const& trace, std::string const& label) {
  return "<details><summary>" + html_text(label + trace.file) + "</summary>\n<dl>" +
         "<dt>Command</dt><dd><code>" + html_text(trace.meta.command_line) + "</code></dd>" +
         "<dt>Program</dt><dd>" + html_text(trace.meta.program_version) + "</dd>" +
         "<dt>Plan</dt><dd><code>" + html_text(trace.meta.plan) + "</code></dd>" +
         "<dt>Device</dt><dd>" + html_text(trace.meta.device) + ", clock " +
         html_text(name_of(trace.meta.clock)) + "</dd></dl>\n<pre tabindex=\"0\">" +
         html_text(trace.meta.config) + "</pre></details>\n";
}

std::string data_json(std::vector<PageTrace> const& traces) {
  std::string json = "[";
  for (PageTrace const& trace : traces) json += (json.size() > 1 ? "," : "") + trace.data;
  return script_json(json + "]");
}

}  // namespace

std::string report_page(std::vector<PageTrace> const& traces,
                        std::string const& title,
                        std::string const& difference) {
  std::string tables;
  std::string origins;
  for (std::size_t i = 0; i < traces.size(); ++i) {
    tables += stage_table_html(traces[i], letter(traces, i) + traces[i].file);
    origins += origin_html(traces[i], letter(traces, i));
  }
  // Its hash must be that of the page's script: a browser hashes the bytes between the tags.
  std::string const script = "\n" + std::string{page_script()};
  return filled(
      page_html(),
      {{"title", html_text(title)},
       {"subtitle", subtitle_html(traces)},
       {"policy", "default-src 'none'; style-src 'unsafe-inline'; img-src data:; script-src " +
                      sha256_source(script)},
       {"style", page_style()},
       {"summary", summary_html(traces) + validation_html(traces)},
       {"difference",
        difference.empty() ? "" : "<p class=\"difference\">" + html_text(difference) + "</p>"},
       {"notes", notes_html(traces)},
       {"memory-notes", memory_notes_html(traces)},
       {"tables", tables},
       {"origins", origins},
       {"program", html_text(program_version())},
       {"data", data_json(traces)},
       {"script", script}});
}

}  // namespace stagecraft
