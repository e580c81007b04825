#pragma once

#include <memory>
#include <string>
#include <string_view>

struct evp_md_ctx_st;  // OpenSSL's EVP_MD_CTX

namespace stagecraft {

/// A SHA-256 digest that is fed piece by piece.
class Sha256 {
 public:
  /// \throws std::runtime_error  where the library cannot compute one; likewise below.
  Sha256();
  void add(std::string_view piece);
  /// 64 hexadecimal digits. Nothing can be added afterwards.
  std::string hexadecimal();

 private:
  struct Free {
    void operator()(evp_md_ctx_st* context) const;
  };
  std::unique_ptr<evp_md_ctx_st, Free> context_;
};

}  // namespace stagecraft
