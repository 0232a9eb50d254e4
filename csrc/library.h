/* The linked libraries, as the rest of the C layer asks for them. */
#ifndef DV_LIBRARY_H
#define DV_LIBRARY_H

#define DV_VERSION(major, minor, patch) ((major) * 1000000 + (minor) * 1000 + (patch))

/* The linked libsodium's version as DV_VERSION writes it; 0 where it cannot be read. */
int dv_sodium_number(void);

/* The same of the linked OpenSSL. */
int dv_openssl_number(void);

#endif
