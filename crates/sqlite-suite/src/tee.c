/*
** The default VFS of SQLite's test program when it is built by scripts/sqlite-suite: every file is
** kept in the store ("varve") and once more on disk ("unix", the host).
**
** What SQLite reads, and whether it gets a lock, is what the store answers. The copy on disk is
** there because the tests work on files from TCL: they delete, copy, measure and patch them. So
**
** - every change goes to both, first to the host, whose simulated errors (SQLITE_TEST) and counters
**   then work as in the stock program;
** - what a test changed on disk behind our back is brought into the store when the file is opened,
**   looked for, or locked. Our own changes carry a modification time of ours, which tells them from
**   anybody else's;
** - whatever the store answers otherwise than the host is a line in the file VARVE_SUITE_LOG.
**
** File controls, shared memory and the characteristics of the device are the store's alone, but for
** HAS_MOVED, which asks the host, LOCKSTATE, which is answered here from what the store has granted,
** and PRAGMA journal_mode=OFF, which is let through. It is C because it stands on both sides of SQLite's C interface, and
** nothing else of varve needs that.
*/
#include "sqlite3.h"
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

extern int varve_suite_store(
  sqlite3_vfs *(*)(const char*), int (*)(sqlite3_vfs*, int),
  const char *(*)(const char*, const char*), void *(*)(int), void (*)(int, const char*, ...));
extern int varve_suite_folder(const char *zFolder);

typedef struct Tee Tee;
struct Tee {
  sqlite3_file base;
  sqlite3_file *pStore;
  sqlite3_file *pHost;
  const char *zName;            /* SQLite's own; null for a temporary file */
  int flags;
  int level;                    /* the lock held */
  dev_t dev;                    /* the file on disk, as it was opened */
  ino_t ino;
};

/* A file on disk as we left it. Entries are never freed: a test has a few names. */
typedef struct Seen Seen;
struct Seen {
  Seen *pNext;
  char *zName;
  int there;                    /* the store has what the disk has */
  struct stat st;
};

static sqlite3_vfs *store, *host;
static Seen *seen;
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;

static void note(const char *zFormat, ...){
  const char *zLog = getenv("VARVE_SUITE_LOG");
  FILE *out = zLog ? fopen(zLog, "a") : 0;
  if( out ){
    va_list ap;
    va_start(ap, zFormat);
    vfprintf(out, zFormat, ap);
    va_end(ap);
    fputc('\n', out);
    fclose(out);
  }
}

static Seen *look_up(const char *zName){
  Seen *p;
  for(p=seen; p; p=p->pNext) if( strcmp(p->zName, zName)==0 ) return p;
  p = calloc(1, sizeof(*p));
  if( p==0 || (p->zName = strdup(zName))==0 ) abort();
  p->pNext = seen;
  return seen = p;
}

/* The file on disk is now what the store has. The time is one that no clock shows, and tells
** processes apart. */
static void mark(const char *zName){
  Seen *p = look_up(zName);
  struct timespec t[2];
  t[0].tv_nsec = UTIME_OMIT;
  t[0].tv_sec = 0;
  t[1].tv_sec = 1000000000 + getpid();
  t[1].tv_nsec = 123456789;
  utimensat(AT_FDCWD, zName, t, 0);
  p->there = stat(zName, &p->st)==0;
}

/* The same, after a change through an open file: if it still has its name. */
static void mark_file(Tee *p){
  struct stat st;
  if( p->zName==0 || stat(p->zName, &st) ) return;
  if( st.st_ino!=p->ino || st.st_dev!=p->dev ) return;
  pthread_mutex_lock(&mutex);
  mark(p->zName);
  pthread_mutex_unlock(&mutex);
}

static int is_super(const char *z){
  size_t n = strlen(z);
  return n>12 && memcmp(z+n-12, "-mj", 3)==0;
}

static int ends(const char *z, const char *zEnd){
  size_t n = strlen(z), m = strlen(zEnd);
  return n>m && strcmp(z+n-m, zEnd)==0;
}

/* Brings a file that somebody else wrote into the store. */
static void bring_in(const char *zName, struct stat *st){
  int kind = SQLITE_OPEN_MAIN_DB, flags = 0;
  size_t n = strlen(zName);
  char *zSafe = calloc(1, n+12);
  sqlite3_file *p = calloc(1, store->szOsFile);
  unsigned char *a = malloc(st->st_size+1);
  int fd = open(zName, O_RDONLY|O_CLOEXEC), rc = SQLITE_OK;
  ssize_t got = 0, all = 0;
  if( is_super(zName) ) kind = SQLITE_OPEN_SUPER_JOURNAL;
  else if( ends(zName, "-journal") ) kind = SQLITE_OPEN_MAIN_JOURNAL;
  else if( ends(zName, "-wal") ) kind = SQLITE_OPEN_WAL;
  if( zSafe==0 || p==0 || a==0 ){
    note("bring in %s: %lld bytes are too many", zName, (long long)st->st_size);
  }else if( fd>=0 ){
    while( all<st->st_size && (got = read(fd, a+all, st->st_size-all))>0 ) all += got;
    memcpy(zSafe+4, zName, n);
    rc = store->xOpen(store, zSafe+4, p, kind|SQLITE_OPEN_READWRITE|SQLITE_OPEN_CREATE, &flags);
    if( rc==SQLITE_OK ){
      rc = p->pMethods->xTruncate(p, 0);
      for(got=0; rc==SQLITE_OK && got<all; got+=65536){
        int m = all-got<65536 ? all-got : 65536;
        rc = p->pMethods->xWrite(p, a+got, m, got);
      }
      if( rc==SQLITE_OK ) rc = p->pMethods->xSync(p, SQLITE_SYNC_NORMAL);
      p->pMethods->xClose(p);
    }
    if( rc ) note("bring in %s: %lld bytes, code %d", zName, (long long)all, rc);
    mark(zName);
  }
  if( fd>=0 ) close(fd);
  free(a);
  free(p);
  free(zSafe);
}

/* Looks whether somebody else has changed, made or deleted the file. */
static void settle(const char *zName){
  struct stat st;
  if( zName==0 ) return;
  if( strlen(zName)>200 ){      /* names of objects are shorter: the folder gets its own store */
    char *zFolder = strdup(zName), *zEnd = zFolder ? strrchr(zFolder, '/') : 0;
    if( zEnd ){
      *zEnd = 0;
      if( varve_suite_folder(zFolder) ) note("folder %s: no store", zFolder);
    }
    free(zFolder);
  }
  pthread_mutex_lock(&mutex);
  Seen *p = look_up(zName);
  if( stat(zName, &st) ){
    if( p->there ){
      int rc = store->xDelete(store, zName, 0);
      if( rc && rc!=SQLITE_IOERR_DELETE_NOENT ) note("gone %s: code %d", zName, rc);
    }
    p->there = 0;
  }else if( S_ISREG(st.st_mode) ){
    int same = p->there && p->st.st_ino==st.st_ino && p->st.st_dev==st.st_dev
      && p->st.st_size==st.st_size && p->st.st_mtim.tv_sec==st.st_mtim.tv_sec
      && p->st.st_mtim.tv_nsec==st.st_mtim.tv_nsec;
    if( !same && st.st_size==0 && !p->there ) mark(zName);
    else if( !same ) bring_in(zName, &st);
  }
  pthread_mutex_unlock(&mutex);
}

/* ---- files ---- */

static int t_close(sqlite3_file *f){
  Tee *p = (Tee*)f;
  int rc = p->pHost->pMethods->xClose(p->pHost);
  int rs = p->pStore->pMethods->xClose(p->pStore);
  f->pMethods = 0;
  return rs ? rs : rc;
}

static int t_read(sqlite3_file *f, void *a, int n, sqlite3_int64 at){
  Tee *p = (Tee*)f;
  void *b = malloc(n+1);
  int rc, rs;
  if( b==0 ) return SQLITE_IOERR_NOMEM;
  rc = p->pHost->pMethods->xRead(p->pHost, b, n, at);
  if( rc!=SQLITE_OK && rc!=SQLITE_IOERR_SHORT_READ ){
    free(b);
    return rc;                  /* a simulated error */
  }
  rs = p->pStore->pMethods->xRead(p->pStore, a, n, at);
  if( rs!=rc || memcmp(a, b, n)!=0 ){
    int i = 0;
    while( i<n && ((char*)a)[i]==((char*)b)[i] ) i++;
    note("read %s: %d bytes at %lld: store %d, host %d, first difference at byte %d",
         p->zName ? p->zName : "(temporary)", n, (long long)at, rs, rc, i);
  }
  free(b);
  return rs;
}

static int t_write(sqlite3_file *f, const void *a, int n, sqlite3_int64 at){
  Tee *p = (Tee*)f;
  int rc = p->pHost->pMethods->xWrite(p->pHost, a, n, at);
  mark_file(p);
  if( rc ) return rc;
  rc = p->pStore->pMethods->xWrite(p->pStore, a, n, at);
  if( rc ) note("write %s: %d bytes at %lld: code %d", p->zName?p->zName:"", n, (long long)at, rc);
  return rc;
}

static int t_truncate(sqlite3_file *f, sqlite3_int64 size){
  Tee *p = (Tee*)f;
  int rc = p->pHost->pMethods->xTruncate(p->pHost, size);
  mark_file(p);
  if( rc ) return rc;
  rc = p->pStore->pMethods->xTruncate(p->pStore, size);
  if( rc ) note("truncate %s: to %lld: code %d", p->zName?p->zName:"", (long long)size, rc);
  return rc;
}

static int t_sync(sqlite3_file *f, int flags){
  Tee *p = (Tee*)f;
  int rc = p->pHost->pMethods->xSync(p->pHost, flags);
  if( rc ) return rc;
  rc = p->pStore->pMethods->xSync(p->pStore, flags);
  if( rc ) note("sync %s: code %d", p->zName?p->zName:"", rc);
  return rc;
}

static int t_size(sqlite3_file *f, sqlite3_int64 *size){
  Tee *p = (Tee*)f;
  sqlite3_int64 on_disk = 0;
  int rc = p->pHost->pMethods->xFileSize(p->pHost, &on_disk);
  if( rc ) return rc;
  rc = p->pStore->pMethods->xFileSize(p->pStore, size);
  if( rc || *size!=on_disk ){
    note("size %s: store %lld (code %d), host %lld", p->zName?p->zName:"", (long long)*size, rc,
         (long long)on_disk);
  }
  return rc;
}

static int t_lock(sqlite3_file *f, int level){
  Tee *p = (Tee*)f;
  int rc, rs;
  rc = p->pHost->pMethods->xLock(p->pHost, level);
  if( p->level==SQLITE_LOCK_NONE && rc==SQLITE_OK ) settle(p->zName);
  if( rc!=SQLITE_OK && rc!=SQLITE_BUSY ) return rc;       /* a simulated error */
  rs = p->pStore->pMethods->xLock(p->pStore, level);
  if( rs!=rc ) note("lock %s: to %d: store %d, host %d", p->zName?p->zName:"", level, rs, rc);
  if( rs==SQLITE_OK && rc!=SQLITE_OK ){
    p->pStore->pMethods->xUnlock(p->pStore, p->level);    /* another process has it */
    return rc;
  }
  if( rs!=SQLITE_OK && rc==SQLITE_OK && p->level<=SQLITE_LOCK_SHARED ){
    p->pHost->pMethods->xUnlock(p->pHost, p->level);
  }
  if( rs==SQLITE_OK && level>p->level ) p->level = level;
  if( rs==SQLITE_BUSY && level==SQLITE_LOCK_EXCLUSIVE && p->level>=SQLITE_LOCK_RESERVED ){
    p->level = SQLITE_LOCK_PENDING;
  }
  return rs;
}

static int t_unlock(sqlite3_file *f, int level){
  Tee *p = (Tee*)f;
  int rs = p->pStore->pMethods->xUnlock(p->pStore, level);
  int rc = p->pHost->pMethods->xUnlock(p->pHost, level);
  if( rs ) note("unlock %s: to %d: code %d", p->zName?p->zName:"", level, rs);
  if( level<p->level ) p->level = level;
  return rs ? rs : rc;
}

static int t_reserved(sqlite3_file *f, int *out){
  Tee *p = (Tee*)f;
  int on_disk = 0, rs;
  int rc = p->pHost->pMethods->xCheckReservedLock(p->pHost, &on_disk);
  if( rc ) return rc;
  rs = p->pStore->pMethods->xCheckReservedLock(p->pStore, out);
  if( *out!=on_disk ) note("reserved %s: store %d, host %d", p->zName?p->zName:"", *out, on_disk);
  *out |= on_disk;
  return rs;
}

static int t_control(sqlite3_file *f, int op, void *arg){
  Tee *p = (Tee*)f;
  sqlite3_file *to = op==SQLITE_FCNTL_HAS_MOVED ? p->pHost : p->pStore;
  int rc;
  if( op==SQLITE_FCNTL_LOCKSTATE ){
    *(int*)arg = p->level;      /* for PRAGMA lock_status; as the store has granted it */
    return SQLITE_OK;
  }
  if( op==SQLITE_FCNTL_PRAGMA && ((char**)arg)[2]
   && sqlite3_stricmp(((char**)arg)[1], "journal_mode")==0
   && sqlite3_stricmp(((char**)arg)[2], "off")==0 ){
    return SQLITE_NOTFOUND;     /* the store refuses it; tests use it to prepare other things */
  }
  rc = to->pMethods->xFileControl(to, op, arg);
  if( rc && rc!=SQLITE_NOTFOUND ) note("control %d %s: code %d", op, p->zName?p->zName:"", rc);
  return rc;
}

static int t_sector(sqlite3_file *f){
  sqlite3_file *p = ((Tee*)f)->pStore;
  return p->pMethods->xSectorSize(p);
}
static int t_characteristics(sqlite3_file *f){
  sqlite3_file *p = ((Tee*)f)->pStore;
  return p->pMethods->xDeviceCharacteristics(p);
}
static int t_map(sqlite3_file *f, int region, int n, int extend, void volatile **out){
  sqlite3_file *p = ((Tee*)f)->pStore;
  return p->pMethods->xShmMap(p, region, n, extend, out);
}
static int t_shm_lock(sqlite3_file *f, int first, int n, int flags){
  sqlite3_file *p = ((Tee*)f)->pStore;
  return p->pMethods->xShmLock(p, first, n, flags);
}
static void t_barrier(sqlite3_file *f){
  sqlite3_file *p = ((Tee*)f)->pStore;
  p->pMethods->xShmBarrier(p);
}
static int t_unmap(sqlite3_file *f, int gone){
  sqlite3_file *p = ((Tee*)f)->pStore;
  return p->pMethods->xShmUnmap(p, gone);
}
static int t_fetch(sqlite3_file *f, sqlite3_int64 at, int n, void **out){
  sqlite3_file *p = ((Tee*)f)->pStore;
  return p->pMethods->xFetch(p, at, n, out);
}
static int t_unfetch(sqlite3_file *f, sqlite3_int64 at, void *what){
  sqlite3_file *p = ((Tee*)f)->pStore;
  return p->pMethods->xUnfetch(p, at, what);
}

#define METHODS(version) { version, t_close, t_read, t_write, t_truncate, t_sync, t_size, t_lock, \
  t_unlock, t_reserved, t_control, t_sector, t_characteristics, t_map, t_shm_lock, t_barrier, \
  t_unmap, t_fetch, t_unfetch }
static const sqlite3_io_methods plain = METHODS(1), shared = METHODS(3);

/* ---- the VFS ---- */

static int v_open(sqlite3_vfs *v, const char *zName, sqlite3_file *f, int flags, int *out){
  Tee *p = (Tee*)f;
  struct stat st;
  int got = flags, ignored = 0, rc, rs;
  (void)v;
  memset(p, 0, sizeof(*p));
  p->pStore = (sqlite3_file*)(p+1);
  p->pHost = (sqlite3_file*)((char*)p->pStore + (store->szOsFile+7)/8*8);
  p->zName = zName;
  p->flags = flags;
  memset(p->pHost, 0, host->szOsFile);
  settle(zName);
  rc = host->xOpen(host, zName, p->pHost, flags, &got);
  if( rc ){
    if( p->pHost->pMethods ) p->pHost->pMethods->xClose(p->pHost);
    return rc;
  }
  if( zName && stat(zName, &st)==0 ){
    p->dev = st.st_dev;
    p->ino = st.st_ino;
    if( st.st_size==0 ) mark_file(p);
  }
  /* The host may have opened for reading what was to be written. The file is there in any case,
  ** but an empty one need not be in the store. */
  if( got & SQLITE_OPEN_READONLY ) flags = (flags & ~SQLITE_OPEN_READWRITE) | SQLITE_OPEN_READONLY;
  flags = (flags & ~SQLITE_OPEN_EXCLUSIVE) | SQLITE_OPEN_CREATE;
  rs = store->xOpen(store, zName, p->pStore, flags, &ignored);
  if( rs ){
    note("open %s: flags %x: store %d, host %d", zName?zName:"", flags, rs, rc);
    p->pHost->pMethods->xClose(p->pHost);
    return rs;
  }
  if( out ) *out = got;
  f->pMethods = p->pStore->pMethods->iVersion>=2 ? &shared : &plain;
  return SQLITE_OK;
}

static int v_delete(sqlite3_vfs *v, const char *zName, int dir){
  int rc = host->xDelete(host, zName, dir), rs;
  (void)v;
  if( rc && rc!=SQLITE_IOERR_DELETE_NOENT ) return rc;
  rs = store->xDelete(store, zName, dir);
  pthread_mutex_lock(&mutex);
  look_up(zName)->there = 0;
  pthread_mutex_unlock(&mutex);
  if( rs!=rc ) note("delete %s: store %d, host %d", zName, rs, rc);
  return rs==SQLITE_IOERR_DELETE_NOENT ? rc : rs;
}

static int v_access(sqlite3_vfs *v, const char *zName, int flags, int *out){
  int on_disk = 0, rc, rs;
  (void)v;
  settle(zName);
  rc = host->xAccess(host, zName, flags, &on_disk);
  *out = on_disk;
  if( rc || flags!=SQLITE_ACCESS_EXISTS ) return rc;
  rs = store->xAccess(store, zName, flags, out);
  if( *out!=on_disk ){
    struct stat st;
    if( stat(zName, &st)==0 && !S_ISREG(st.st_mode) ) *out = on_disk;
    else note("access %s: store %d, host %d", zName, *out, on_disk);
  }
  return rs;
}

static int v_full(sqlite3_vfs *v, const char *z, int n, char *out){
  (void)v; return host->xFullPathname(host, z, n, out);
}
static void *v_dlopen(sqlite3_vfs *v, const char *z){ (void)v; return store->xDlOpen(store, z); }
static void v_dlerror(sqlite3_vfs *v, int n, char *z){ (void)v; store->xDlError(store, n, z); }
static void (*v_dlsym(sqlite3_vfs *v, void *lib, const char *z))(void){
  (void)v; return store->xDlSym(store, lib, z);
}
static void v_dlclose(sqlite3_vfs *v, void *lib){ (void)v; store->xDlClose(store, lib); }
static int v_random(sqlite3_vfs *v, int n, char *z){ (void)v; return store->xRandomness(store, n, z); }
static int v_sleep(sqlite3_vfs *v, int us){ (void)v; return store->xSleep(store, us); }
static int v_time(sqlite3_vfs *v, double *t){ (void)v; return store->xCurrentTime(store, t); }
static int v_error(sqlite3_vfs *v, int n, char *z){ (void)v; return host->xGetLastError(host, n, z); }
static int v_time64(sqlite3_vfs *v, sqlite3_int64 *t){
  (void)v; return store->xCurrentTimeInt64(store, t);
}
static int v_set(sqlite3_vfs *v, const char *z, sqlite3_syscall_ptr p){
  (void)v; return host->xSetSystemCall(host, z, p);
}
static sqlite3_syscall_ptr v_get(sqlite3_vfs *v, const char *z){
  (void)v; return host->xGetSystemCall(host, z);
}
static const char *v_next(sqlite3_vfs *v, const char *z){
  (void)v; return host->xNextSystemCall(host, z);
}

static sqlite3_vfs tee = {
  3, 0, 0, 0, "varve-suite", 0, v_open, v_delete, v_access, v_full, v_dlopen, v_dlerror, v_dlsym,
  v_dlclose, v_random, v_sleep, v_time, v_error, v_time64, v_set, v_get, v_next
};

/* SQLITE_EXTRA_INIT: also called after each sqlite3_shutdown(), when "unix" is the default again. */
int varve_vfs_init(const char *unused){
  (void)unused;
  if( host==0 ){
    host = sqlite3_vfs_find("unix");
    if( host==0 ) return SQLITE_ERROR;
    if( varve_suite_store(sqlite3_vfs_find, sqlite3_vfs_register, sqlite3_uri_parameter,
                          sqlite3_malloc, sqlite3_log) ) return SQLITE_ERROR;
    store = sqlite3_vfs_find("varve");
    tee.szOsFile = (int)sizeof(Tee) + (store->szOsFile+7)/8*8 + host->szOsFile;
    tee.mxPathname = host->mxPathname;
  }
  return sqlite3_vfs_register(&tee, 1);
}
