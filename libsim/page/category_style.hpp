#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace stagecraft {

/// The style sheet of a page: page.css, and the colours of categories, which are `--m-NAME` in
/// scripts and the ground of what has the class `m-NAME`.
std::string page_style();

/// The names of categories as charts stack them, from the bottom: what is kept between iterations,
/// then the others, of which what changes most comes last.
std::vector<std::string_view> stacked_categories();

}  // namespace stagecraft
